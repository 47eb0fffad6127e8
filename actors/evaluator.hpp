#pragma once

#include "actors/role_context.hpp"

namespace troupe {

/// Spawns the evaluator: receives the slices of a version, computes its
/// measures over the held-out samples on its own executor, in file order, and
/// reports to the coordinator. A newer version replaces one that waits.
evaluator_actor spawn_evaluator(caf::actor_system& system, RoleContext context);

} // namespace troupe
