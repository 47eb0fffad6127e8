#pragma once

#include "actors/role/context.hpp"
#include "actors/shard/shard_store.hpp"

#include <memory>

namespace troupe {

/// Spawns a tensor member: some of the virtual slices of the model's layers,
/// with their parameters and optimizer state, and a copy of what is not cut.
/// All members of a group take each of its virtual ranks through the model at
/// the same time. Where a sum over slices is due each sends its partial sum to
/// all others as StageValues, and adds up what came along the fixed tree
/// (strategies/tensor_plan). Leaves are summed, and parameters updated, by who
/// has them; all have the same bits of what all have. With several groups
/// (hybrid) those that hold the same slices sum gradients as stages do
/// (StagePeers).
///
/// A step that is broken off is taken anew, as stages do it: a member
/// overwrites version s only after a step of s + 1, in which every other took
/// part, and so has s + 1.
/// Completion: the actor ends with the job.
stage_actor spawn_tensor_member(caf::actor_system& system, RoleContext context,
                                std::shared_ptr<ShardStore> store);

} // namespace troupe
