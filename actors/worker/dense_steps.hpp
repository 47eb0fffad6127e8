#pragma once

#include "actors/replica/steps.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// The dense variables of a worker whose tables' rows are on shards. Every
/// worker has all of them: the group sums the workers' gradients along the
/// fixed tree, and each worker updates its own copy.
///
/// Two banks: a step reads version s and writes s + 1. So whatever becomes of
/// the group, the worker has s, which the shards still have rows of; a step
/// that they, or peers, have not finished is taken again from there. All calls
/// from tasks of the executor, or while it is idle, but abort() and lost().
class DenseSteps {
public:
  DenseSteps(const RoleContext& context, Executor& executor);

  /// Versions held whole, oldest to newest; for all slices alike.
  std::vector<SliceState> held() const;
  uint64_t newest() const { return newest_; }
  /// Flat by Job::layout; the places of tables are the caller's.
  float* parameters(uint64_t version) const {
    return variables_.parameters(version);
  }

  /// An epoch begins with these members; what they held of its first step may
  /// be given up, where there is no room for all.
  void begin_epoch(ReplicaStart start);
  /// What this worker brings to the step that comes next.
  const MemberNodes& share() const { return shares_[start_.rank]; }
  /// Ranks of that step that nobody has.
  std::vector<RankRange> missing() const;
  /// What the group of the epoch needs to know.
  ReducerLayout layout() const;
  std::shared_ptr<FlatArrays> arrays() const { return arrays_; }

  /// Goes back to a checkpoint; null: to version 0.
  /// Errors: InputError where it cannot be read.
  void reset(const std::shared_ptr<const Beginning>& beginning);
  /// The epoch begins at `version`, which the member of rank `source` in the
  /// group has; without one all have it.
  StepOutcome begin(uint64_t version, std::optional<uint32_t> source);
  /// Has this worker's leaves of `step` computed, as compute_together().
  StepOutcome compute(uint64_t step,
                      const std::function<StepGradient(RankPeers*)>& work);
  /// Sums what the workers computed of `step`, the newest version, and updates.
  /// `sums`: of all nodes of share(), or of nodes below them, in any order.
  /// `end`: the version the run ends at.
  StepOutcome take(uint64_t step, const std::vector<NodeSum>& sums,
                   uint64_t end);
  /// This worker's share of the slices, of the newest version.
  std::vector<SnapshotSlice> snapshot() const;

  /// A snapshot is wanted of this version, if it is not past; from any thread.
  void want(uint64_t version) { wanted_ = version; }
  EpochGroup& group() { return group_; }

private:
  uint64_t count_from(const Beginning* beginning) const;
  void divide();
  void copy_runs(const float* from, float* to) const;
  bool gather(RankRange node, const std::vector<NodeSum>& sums,
              float* target) const;
  bool reduce(uint64_t step, const std::vector<NodeSum>& sums,
              StepOutcome& outcome);
  void update_all(uint64_t step);
  UpdateMoment moment(uint64_t step) const;
  float* whole_sum() const;

  RoleContext context_;
  const Job& job_;
  Executor& executor_;
  std::vector<Slice> slices_; ///< that workers keep
  GradientBuckets buckets_;   ///< of those
  VariableBanks variables_;
  uint64_t oldest_;
  uint64_t newest_;
  uint64_t count_from_; ///< updates that a version is more than its step

  ReplicaStart start_;
  std::vector<MemberNodes> shares_; ///< of the step that comes next
  uint32_t addends_ = 0;
  std::vector<uint32_t> own_slices_;   ///< of snapshots
  StatisticsRoom statistics_;          ///< in arrays_, behind all else
  std::shared_ptr<FlatArrays> arrays_; ///< addends, then the sum

  EpochGroup group_;
  std::atomic<uint64_t> wanted_{~uint64_t{0}};
};

} // namespace troupe
