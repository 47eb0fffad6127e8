#pragma once

#include "actors/role/context.hpp"
#include "actors/shard/shard_store.hpp"

#include <memory>

namespace troupe {

/// Spawns a stage of a pipeline: some of the model's layers, with their
/// parameters and optimizer state. Every virtual rank is a micro-batch that
/// goes through all stages; what crosses travels as StageValues between
/// neighbours, in the order of the job's schedule (pipeline_schedule). A stage
/// sums its leaves along the fixed tree and updates its own parameters.
///
/// Or a tensor member: some of the virtual slices of its stage's layers, of all
/// where there are no stages, and a copy of what is not cut. The members of a
/// stage take each micro-batch through it at the same time, each with what
/// crosses of its own from the member with its slices beside it. Where a sum
/// over slices is due each sends its partial sum to all others, and adds up
/// what came along the fixed tree (strategies/tensor_plan).
///
/// A step that is broken off is taken anew by all stages, from the newest
/// version that all have: each keeps the one before as well, in memory that
/// outlives its process (ShardStore), and overwrites it only when every stage
/// has the newer one, which their micro-batches prove. Beside other pipelines
/// one that has lost this memory takes a copy from a stage with its layers.
/// Or shards keep the parameters (Plan::served; `store` is null): it pulls
/// those of each step, and pushes what its gradients sum up to; of tensor
/// members that have the same sum one does.
/// Completion: the actor ends with the job.
stage_actor spawn_stage(caf::actor_system& system, RoleContext context,
                        std::shared_ptr<ShardStore> store);

} // namespace troupe
