#include "actors/replica/epoch_group.hpp"

#include "kernels/base/seconds_since.hpp"
#include "kernels/base/steady_clock.hpp"

#include <chrono>
#include <utility>

namespace troupe {
namespace {

using Clock = SteadyClock;

} // namespace

EpochGroup::EpochGroup(FaultTrigger& faults, std::chrono::milliseconds patience,
                       std::function<void()> spoilt)
  : faults_(faults), patience_(patience), spoilt_(std::move(spoilt)) {}

void EpochGroup::expect() {
  std::lock_guard lock{mutex_};
  forming_ = true;
  lost_early_.clear();
}

void EpochGroup::join(std::shared_ptr<ReplicaGroup> group) {
  std::lock_guard lock{mutex_};
  aborted_ = false;
  group_.swap(group); // the one before ends past the lock: it may have to wait
  reducer_ = group_ ? group_->reducer.get() : nullptr;
  traffic_ = {};
  forming_ = false;
  if (reducer_ != nullptr)
    for (const auto& [rank, reason] : lost_early_)
      lose(rank, reason);
  lost_early_.clear();
}

void EpochGroup::abort(const std::string& reason) {
  std::lock_guard lock{mutex_};
  call_off(reason);
}

void EpochGroup::lost(uint32_t rank, const std::string& reason) {
  std::lock_guard lock{mutex_};
  if (forming_)
    lost_early_.emplace_back(rank, reason);
  else
    lose(rank, reason);
}

void EpochGroup::lose(uint32_t rank, const std::string& reason) {
  if (reducer_ != nullptr)
    reducer_->lost(rank);
  call_off(reason);
}

void EpochGroup::call_off(const std::string& reason) {
  if (!aborted_)
    why_aborted_ = reason;
  aborted_ = true;
  if (reducer_ != nullptr)
    reducer_->abort(reason);
}

bool EpochGroup::can_begin(StepOutcome& outcome) {
  std::lock_guard lock{mutex_};
  if (aborted_)
    outcome.failure = why_aborted_;
  return !aborted_;
}

bool EpochGroup::reduce(ReduceStep step, size_t buckets,
                        const std::function<bool()>& compute,
                        StepOutcome& outcome) {
  reducer_->start(std::move(step));
  if (!compute)
    for (size_t i = 0; i < buckets; ++i)
      reducer_->ready(static_cast<uint32_t>(i));
  else if (!compute()) {
    if (spoilt_) // others may be at what they were given, until they seal too
      spoilt_();
    return false;
  }
  const auto begin = Clock::now();
  const auto result = reducer_->finish(begin + patience_);
  outcome.wait_seconds += seconds_since(begin);
  faults_.pass(StepPhase::reduce);
  const auto so_far = reducer_->traffic();
  outcome.traffic.sent_bytes += so_far.sent_bytes - traffic_.sent_bytes;
  outcome.traffic.plain_bytes += so_far.plain_bytes - traffic_.plain_bytes;
  traffic_ = so_far;
  return is_done(result, outcome);
}

bool EpochGroup::broadcast(float* array, size_t count, uint32_t source,
                           StepOutcome& outcome) {
  const auto begin = Clock::now();
  const auto result = reducer_->broadcast(array, count, source,
                                          begin + patience_);
  outcome.wait_seconds += seconds_since(begin);
  return is_done(result, outcome);
}

bool EpochGroup::all_reduce(float* values, size_t count, StepOutcome& outcome) {
  return is_done(reducer_->all_reduce(values, count, Clock::now() + patience_),
                 outcome);
}

bool EpochGroup::is_done(const CollectiveResult& result, StepOutcome& outcome) {
  if (result.end == CollectiveEnd::done)
    return true;
  // Members that do not agree will not agree the next time.
  (result.end == CollectiveEnd::mismatch ? outcome.trouble
                                         : outcome.failure) = result.reason;
  if (result.spoils_memory && spoilt_)
    spoilt_();
  return false;
}

} // namespace troupe
