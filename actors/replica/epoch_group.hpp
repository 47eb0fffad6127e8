#pragma once

#include "actors/compute/fault_trigger.hpp"
#include "actors/replica/group.hpp"
#include "actors/replica/step_outcome.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// The group of the epoch that a member is in: its collectives, each with a
/// deadline, and the way to call them off. Collectives are called by tasks of
/// the member's executor; they return whether all went well, and else put into
/// the outcome what cannot go on, the epoch or the job.
class EpochGroup {
public:
  /// `spoilt`: after a collective some member may still write to the memory
  /// that this one brought. `patience`: of a collective.
  EpochGroup(FaultTrigger& faults, std::chrono::milliseconds patience,
             std::function<void()> spoilt = {});

  /// The group of the next epoch is being formed: a rank that is lost from now
  /// on is one of that group.
  void expect();
  /// Joins the group of an epoch, null where nobody else is there; the one
  /// before it is let go. Members lost while it was formed are lost to it.
  void join(std::shared_ptr<ReplicaGroup> group);
  bool has_peers() const { return reducer_ != nullptr; }
  /// The group's; there is one while has_peers().
  Reducer& reducer() { return *reducer_; }

  /// Ends what the group does; from any thread.
  void abort(const std::string& reason);
  /// The same: the process of a member of the newest group has ended.
  void lost(uint32_t rank, const std::string& reason);
  /// Returns whether nothing was called off between two steps, of which no
  /// step would tell.
  bool can_begin(StepOutcome& outcome);

  /// Starts the step, has the buckets reduced that `compute` makes (without
  /// it: all `buckets` that there are), and waits. Adds wait and traffic.
  bool reduce(ReduceStep step, size_t buckets,
              const std::function<bool()>& compute, StepOutcome& outcome);
  /// Adds the wait. Shapes: array [count], equal on all members afterwards.
  bool broadcast(float* array, size_t count, uint32_t source,
                 StepOutcome& outcome);
  /// Shapes: values [count], summed over the members.
  bool all_reduce(float* values, size_t count, StepOutcome& outcome);

private:
  void lose(uint32_t rank, const std::string& reason);
  void call_off(const std::string& reason);
  bool is_done(const CollectiveResult& result, StepOutcome& outcome);

  FaultTrigger& faults_;
  /// Past it a collective has failed. The coordinator notices silent members
  /// long before; this is for what nobody thought of.
  std::chrono::milliseconds patience_;
  std::function<void()> spoilt_;
  std::mutex mutex_; ///< of the six below against abort() and lost()
  bool forming_ = false;
  std::vector<std::pair<uint32_t, std::string>> lost_early_; ///< while forming
  bool aborted_ = false;
  std::string why_aborted_;
  std::shared_ptr<ReplicaGroup> group_;
  Reducer* reducer_ = nullptr;
  Reducer::Traffic traffic_; ///< of reducer_, up to the newest step
};

} // namespace troupe
