#pragma once

#include "actors/process/flight_recorder.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace troupe {

/// Records when a shard is busy. Most of its tasks are over sooner than a span
/// is worth: what is short goes into the span of the task that follows at once,
/// or is one of its own when it turns out that none did. Any thread.
class ServeSpans {
public:
  /// A task that is shorter, and a pause that is, makes no span of its own.
  static constexpr std::chrono::microseconds shortest{20};

  /// Null: nobody asked for it.
  explicit ServeSpans(std::shared_ptr<FlightRecorder> flight)
    : flight_(std::move(flight)) {}
  ~ServeSpans() {
    if (waiting_)
      write(*waiting_);
  }
  ServeSpans(const ServeSpans&) = delete;
  ServeSpans& operator=(const ServeSpans&) = delete;

  void add(SteadyClock::time_point begin, SteadyClock::time_point end) {
    if (!flight_)
      return;
    const std::lock_guard guard{mutex_};
    Task task{begin, end};
    if (const auto before = std::exchange(waiting_, std::nullopt)) {
      if (begin - before->end < shortest)
        task = {std::min(begin, before->begin), std::max(end, before->end)};
      else
        write(*before);
    }
    if (task.end - task.begin < shortest)
      waiting_ = task;
    else
      write(task);
  }

private:
  struct Task {
    SteadyClock::time_point begin;
    SteadyClock::time_point end;
  };

  void write(const Task& task) const {
    flight_->record(Activity::serve, task.begin, task.end, 0);
  }

  const std::shared_ptr<FlightRecorder> flight_;
  std::mutex mutex_;
  std::optional<Task> waiting_; ///< too short to be written by itself
};

} // namespace troupe
