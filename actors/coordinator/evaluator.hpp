#pragma once

#include "actors/compute/evaluated_rows.hpp"
#include "actors/role/context.hpp"

namespace troupe {

/// Spawns the evaluator: receives the slices of a version, computes its
/// measures over the held-out samples on its own executor, in file order, and
/// reports to the coordinator. A newer version replaces one that waits.
/// `rows`: what the samples read of sparse tables; null without those.
evaluator_actor spawn_evaluator(caf::actor_system& system, RoleContext context,
                                std::shared_ptr<const EvaluatedRows> rows);

} // namespace troupe
