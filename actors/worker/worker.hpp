#pragma once

#include "actors/role/context.hpp"

namespace troupe {

/// Spawns a worker of the parameter-server strategy. Synchronous: it pulls
/// version s, computes its virtual ranks, pushes its tree nodes slice by slice
/// and keeps them until version s + 1 has arrived from every shard, so that it
/// can send them again after an epoch change (PROTOCOL 8 to 10). Asynchronous:
/// the same for leases, one at a time, against the versions the shards hold.
worker_actor spawn_worker(caf::actor_system& system, RoleContext context);

} // namespace troupe
