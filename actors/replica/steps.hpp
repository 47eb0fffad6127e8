#pragma once

#include "actors/compute/leaf_computer.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/replica/epoch_group.hpp"
#include "actors/replica/resident_steps.hpp"
#include "actors/replica/sums.hpp"
#include "actors/role/context.hpp"
#include "strategies/bucket_tuning.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// A replica without its actor: takes steps on its executor. A step computes
/// the replica's leaves, reduces them with the group while the backward pass
/// goes on, and updates; no message lies on the way. All calls but abort() and
/// version() from tasks of the executor, or while it is idle.
///
/// Two banks of variables: a step reads version s and writes s + 1, whoever
/// writes; nobody touches s until all have s + 1 (PROTOCOL 9). A replica
/// without peers updates in place, or leaves that to a device that can. Where a
/// step fails, what was computed of it is kept for the next epoch.
class ReplicaSteps {
public:
  ReplicaSteps(const RoleContext& context, Executor& executor);

  uint64_t version() const { return version_; } ///< held whole
  std::shared_ptr<FlatArrays> arrays() const { return arrays_; }
  bool alone() const { return replicas_ == 1; }
  /// What a group needs to know of this replica.
  ReducerLayout layout(const ReplicaStart& start) const;
  /// Nodes of step version() whose sums it holds.
  std::vector<RankRange> held() const { return sums_.held(); }

  /// Goes back to a checkpoint; null: to version 0.
  /// Errors: InputError where it cannot be read.
  void reset(const std::shared_ptr<const Beginning>& beginning);
  /// Joins the group of an epoch; the one before it is let go.
  void enter(std::shared_ptr<ReplicaGroup> group, ReplicaStart start);
  /// All replicas take `version` from the one in place `source`.
  StepOutcome synchronise(uint64_t version, uint32_t source);
  /// Takes `step`, if that is the next one. `end`: the version the run ends at.
  StepOutcome take(uint64_t step, uint64_t end);
  /// This replica's share of the slices, of the version held.
  std::vector<SnapshotSlice> snapshot() const;

  /// A snapshot is wanted of this version, if it is not past; from any thread.
  void want(uint64_t version) { wanted_ = version; }
  EpochGroup& group() { return group_; }

private:
  void hold(uint64_t version);
  bool shares_variables() const { return shares_variables_; }
  bool updates_in_parts() const;
  /// Where the sum goes of a step that is not updated in parts.
  float* whole_sum() const;
  void point_at_sums();
  bool compute(uint64_t step, StepOutcome& outcome);
  const GradientBuckets& buckets() const { return layouts_[tuning_.next()]; }
  bool tune(double seconds, StepOutcome& outcome);
  void make_arrays();
  void move_to_new_arrays();
  bool reduce(ReduceStep step, const std::function<bool()>& compute,
              StepOutcome& outcome);
  bool take_alone(uint64_t step, StepOutcome& outcome);
  bool take_in_group(uint64_t step, StepOutcome& outcome);
  void update_whole(uint64_t step);
  void update_run(uint64_t step, const StepScalars& scalars, uint64_t begin,
                  uint64_t end, const float* sum) const;
  UpdateMoment moment(uint64_t step) const;
  void arguments(uint64_t step, uint64_t at, const float* sum,
                 UpdateArgs& args) const;

  RoleContext context_;
  const Job& job_;
  Executor& executor_;
  uint32_t replicas_;
  std::vector<GradientBuckets> layouts_; ///< to choose from
  BucketTuning tuning_{1};
  std::vector<uint32_t> by_place_; ///< slices in order of the flat buffer
  LeafComputer computer_;
  /// Null: variables are the host's, which updates.
  std::unique_ptr<ResidentSteps> resident_;
  ReplicaSums sums_;
  std::vector<uint32_t> own_slices_; ///< of snapshots
  std::shared_ptr<FlatArrays> arrays_;
  std::shared_ptr<VariableBanks> variables_;
  bool shares_variables_ = false; ///< with all replicas of the process
  NodeTargets targets_;           ///< what is left to compute of the step

  EpochGroup group_;
  uint64_t version_ = 0;
  std::atomic<uint64_t> wanted_{~uint64_t{0}};
  uint64_t count_from_ = 0; ///< updates that a version is more than its step
};

} // namespace troupe
