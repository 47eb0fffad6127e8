#include "actors/coordinator/checkpoint_desk.hpp"

#include "actors/job/beginning.hpp"
#include "actors/job/first_period.hpp"
#include "actors/process/steady_ms.hpp"
#include "actors/role/context.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/seconds_since.hpp"
#include "monitoring/checkpoint_names.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

CheckpointDesk::CheckpointDesk(coordinator_actor::pointer self,
                               std::shared_ptr<const Job> job,
                               CheckpointOptions options,
                               std::string fingerprint,
                               MetricRegistry& registry, FileSystem& files,
                               Calls calls)
  : self_(self),
    job_(job),
    keeper_(std::move(job), std::move(options), std::move(fingerprint),
            registry, files),
    calls_(std::move(calls)) {}

void CheckpointDesk::look(uint64_t committed, bool at_once) {
  if (const auto version = keeper_.schedule().due(committed, at_once,
                                                  steady_ms()))
    calls_.ask(*version);
}

void CheckpointDesk::ask_again(uint64_t committed) {
  if (const auto version = keeper_.schedule().again(committed, steady_ms()))
    calls_.ask(*version);
}

void CheckpointDesk::arrived(const Snapshot& whole, const Consistency& period) {
  if (keeper_.schedule().arrived(whole.version))
    write(whole, period, "periodic");
}

void CheckpointDesk::write(const Snapshot& snapshot, const Consistency& period,
                           const char* cause,
                           std::function<void(const CheckpointOutcome&)> then) {
  if (!executor_)
    executor_ = std::make_shared<Executor>("checkpoint", 1);
  if (under_way_++ == 0)
    under_way_since_ = SteadyClock::now();
  run_on(
    *executor_, self_,
    [this, snapshot, period, cause, classes = keeper_.numeric_classes()] {
      return keeper_.write(snapshot, period, cause, classes);
    },
    [this, then = std::move(then)](const CheckpointOutcome& outcome) {
      --under_way_;
      under_way_since_ = SteadyClock::now(); // the next one's turn
      keeper_.schedule().written();
      if (const auto line = keeper_.took(outcome); !line.empty())
        calls_.note(line);
      last_failure_ = outcome.failure;
      if (then)
        then(outcome);
      else
        calls_.written();
    });
}

void CheckpointDesk::computes_in(const std::string& numeric_class) {
  if (const auto line = keeper_.computes_in(numeric_class); !line.empty())
    calls_.note(line);
}

std::optional<CheckpointOutcome> CheckpointDesk::newest_whole() const {
  const auto& newest = keeper_.newest();
  return newest && newest->whole ? newest : std::nullopt;
}

void CheckpointDesk::keep(const Snapshot& snapshot, const Consistency& period,
                          const char* cause,
                          std::function<void(const CheckpointOutcome&)> then) {
  if (const auto newest = newest_whole();
      newest && newest->step == snapshot.version)
    then(*newest);
  else
    write(snapshot, period, cause, std::move(then));
}

bool CheckpointDesk::is_last_written(const Snapshot& last,
                                     const Consistency& period,
                                     const char* cause) {
  if (!keeper_.enabled())
    return true;
  if (under_way_ > 0)
    return false;
  const auto& newest = keeper_.newest();
  if (asked_for_last_
      || (newest && newest->whole && newest->step == last.version))
    return true;
  asked_for_last_ = true;
  write(last, period, cause);
  return false;
}

void CheckpointDesk::show_under_way(MetricRegistry& registry) const {
  if (keeper_.enabled())
    registry.gauge(metrics::checkpoint_under_way_seconds)
      .set(under_way_ == 0 ? 0 : seconds_since(under_way_since_));
}

std::string CheckpointDesk::last_folder() const {
  return keeper_.enabled() && last_failure_.empty() && keeper_.newest()
           ? keeper_.newest()->folder
           : "";
}

void CheckpointDesk::go_back(Activate& message, ConsistencySwitch& period) {
  message.version = std::max(message.version, job_->first_step());
  const auto& newest = keeper_.newest();
  if (newest && newest->whole && newest->step >= message.version) {
    try {
      const Beginning at{*job_, newest->folder};
      period.start_over(at.period_as(period.now()));
      message.version = newest->step;
      message.checkpoint = newest->folder;
      message.synchronise = false;
    } catch (const InputError& failure) {
      calls_.note(std::string{"no way back to a checkpoint: "}
                  + failure.what());
    }
  }
  if (message.checkpoint.empty() && message.version == job_->first_step())
    period.start_over(first_period(*job_));
  keeper_.schedule().rolled_back(message.version);
}

} // namespace troupe
