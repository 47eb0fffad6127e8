#pragma once

#include "actors/role/context.hpp"

namespace troupe {

/// Spawns a replica of the mirrored strategy: a copy of all variables on one
/// local device. Each replica sends its node sums to every other; each
/// finishes the tree for the slices it owns and sends the result to all
/// (reduce-scatter by direct exchange, then all-gather); everybody applies the
/// same update. In one process nothing is copied: messages carry views.
replica_actor spawn_replica(caf::actor_system& system, RoleContext context);

} // namespace troupe
