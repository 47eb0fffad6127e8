#pragma once

#include "actors/replica/lock_step.hpp"
#include "actors/replica/sums.hpp"
#include "actors/role/context.hpp"

#include <cstdint>
#include <functional>
#include <memory>

namespace troupe {

/// The group that workers of shards form in each epoch for nothing but the
/// sums over all virtual ranks in the middle of their passes: those of norms
/// with cross_replica. All calls from tasks of the executor, or while it is
/// idle, but those of group().
class NormGroup {
public:
  explicit NormGroup(const RoleContext& context);

  /// An epoch begins; returns what this worker asks for to be in its group.
  GroupWish begin_epoch(const Activate& activation);
  /// Has this worker's leaves of `step` computed, as compute_together().
  StepOutcome compute(uint64_t step,
                      const std::function<StepGradient(RankPeers*)>& work);
  EpochGroup& group() { return group_; }

private:
  const RoleContext& context_;
  const Job& job_;
  const GradientBuckets buckets_; ///< members compare them; none is summed
  ReplicaStart start_;
  StatisticsRoom room_;
  std::shared_ptr<FlatArrays> arrays_; ///< of the epoch
  EpochGroup group_;
};

} // namespace troupe
