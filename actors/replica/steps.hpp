#pragma once

#include "actors/compute/leaf_computer.hpp"
#include "actors/replica/bank_update.hpp"
#include "actors/replica/epoch_group.hpp"
#include "actors/replica/group_statistics.hpp"
#include "actors/replica/sums.hpp"
#include "actors/replica/variable_home.hpp"
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
/// without peers updates in place; so does a device that keeps the variables,
/// once the whole sum is here. Where a step fails, what was computed of it is
/// kept for the next epoch; with cross_replica nothing is, and its sums may be
/// overwritten.
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
  /// This replica's share of the slices, of the version held; `last`: the run
  /// ends at it, so that variables may be lent.
  std::vector<SnapshotSlice> snapshot(bool last = false);

  /// A snapshot is wanted of this version, if it is not past; from any thread.
  void want(uint64_t version) { wanted_ = version; }
  EpochGroup& group() { return group_; }

private:
  DeviceId device() const {
    return parse_device(job_.plan.role(context_.role).device);
  }
  FlatArrays& sum_arrays() const {
    return device_sums_ ? *device_sums_ : *arrays_;
  }
  void hold(uint64_t version);
  bool shares_variables() const { return shares_variables_; }
  bool updates_in_parts() const;
  /// Where the sum goes of a step that is not updated in parts.
  float* whole_sum() const;
  void point_at_sums();
  bool computes(StepOutcome& outcome,
                const std::function<StepGradient()>& work);
  const GradientBuckets& buckets() const { return layouts_[tuning_.next()]; }
  bool tune(double seconds, StepOutcome& outcome);
  void make_arrays();
  void move_to_new_arrays();
  bool reduce(ReduceStep step, const std::function<bool()>& compute,
              StepOutcome& outcome);
  bool take_alone(uint64_t step, StepOutcome& outcome);
  bool take_in_group(uint64_t step, StepOutcome& outcome);
  bool sum_in_group(uint64_t step, StepOutcome& outcome);
  bool compute_in_lock_step(uint64_t step,
                            const std::function<bool(const NodeTargets&)>& work,
                            StepOutcome& outcome);
  bool update_shared(uint64_t step, StepOutcome& outcome);
  UpdateMoment moment(uint64_t step) const;

  RoleContext context_;
  const Job& job_;
  Executor& executor_;
  uint32_t replicas_;
  bool on_devices_; ///< some replicas' variables are, of a group
  bool by_nccl_;    ///< their sums too
  std::vector<GradientBuckets> layouts_; ///< to choose from
  BucketTuning tuning_{1};
  LeafComputer computer_;
  BankUpdate update_;
  ReplicaSums sums_;
  StatisticsRoom statistics_;        ///< in arrays_, behind all else
  std::vector<uint32_t> own_slices_; ///< of snapshots, and told of
  bool lent_ = false; ///< variables, to whom nobody may write under
  std::shared_ptr<FlatArrays> arrays_;
  std::shared_ptr<FlatArrays> device_sums_;  ///< null: sums are in arrays_
  std::shared_ptr<VariableBanks> variables_; ///< where the home is the host's
  std::unique_ptr<VariableHome> home_;
  bool shares_variables_ = false; ///< with all replicas of the process
  NodeTargets targets_;           ///< what is left to compute of the step

  EpochGroup group_;
  uint64_t version_ = 0;
  std::atomic<uint64_t> wanted_{~uint64_t{0}};
  uint64_t count_from_ = 0; ///< updates that a version is more than its step
};

} // namespace troupe
