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
/// A step that is broken off is taken anew by all stages, from the newest
/// version that all have: each keeps the one before as well, in memory that
/// outlives its process (ShardStore), and overwrites it only when every stage
/// has the newer one, which their micro-batches prove. Beside other pipelines
/// one that has lost this memory takes a copy from a stage with its layers.
/// Completion: the actor ends with the job.
stage_actor spawn_stage(caf::actor_system& system, RoleContext context,
                        std::shared_ptr<ShardStore> store);

} // namespace troupe
