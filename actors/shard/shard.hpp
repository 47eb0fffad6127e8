#pragma once

#include "actors/role/context.hpp"
#include "actors/shard/shard_store.hpp"

namespace troupe {

/// Spawns a parameter-server shard: owns the slices of its plan, sums pushed
/// nodes along the tree, applies a step when its tree is complete (or, async,
/// each lease on arrival) and serves the two newest versions. Decisions are a
/// StepLedger's per slice; sums and updates run on the shard's executor.
/// Source: Li et al., "Scaling Distributed Machine Learning with the Parameter
/// Server", OSDI 2014, for the roles of workers and shards.
shard_actor spawn_shard(caf::actor_system& system, RoleContext context,
                        std::shared_ptr<ShardStore> store);

} // namespace troupe
