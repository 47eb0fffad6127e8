#pragma once

#include "actors/role/context.hpp"

namespace troupe {

/// Spawns a worker of fully_sharded that never has the whole gradient, nor,
/// with --shard parameters, the whole model: it takes its leaves through the
/// model part by part, gathers the parameters of a part from their owners ahead
/// of its passes and lets go of them afterwards, and gives each gradient to its
/// owner as soon as it is complete. Owners are the shards of all workers'
/// processes, its own among them.
worker_actor spawn_sharded_worker(caf::actor_system& system,
                                  RoleContext context);

} // namespace troupe
