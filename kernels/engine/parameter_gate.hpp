#pragma once

#include "kernels/base/steady_clock.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

namespace troupe {

/// What a pass ends with that was begun and is not wanted any more: it has no
/// result.
struct PassAbandoned : std::exception {
  const char* what() const noexcept override { return "a pass was abandoned"; }
};

/// Lets a forward pass begin before all parameters are in memory. Whoever
/// brings them opens one after the other, and the pass waits for each where it
/// is first read. Any thread may call any of these.
class ParameterGate {
public:
  using Clock = SteadyClock;

  /// Whoever waits longer than `patience` for one parameter abandons the pass.
  ParameterGate(size_t parameters, Clock::duration patience)
    : patience_(patience), open_(parameters), closed_(parameters) {
    whole_ = parameters == 0;
  }

  /// The parameter is in memory, and stays as it is while the pass reads it.
  void open(size_t parameter) {
    std::lock_guard lock{mutex_};
    if (open_[parameter])
      return;
    open_[parameter] = true;
    if (--closed_ == 0 && !abandoned_)
      whole_.store(true, std::memory_order_release);
    if (waiting_ > 0)
      changed_.notify_all();
  }
  /// Whoever waits stops at once, unless all are open.
  void abandon() {
    std::lock_guard lock{mutex_};
    abandoned_ = abandoned_ || closed_ > 0;
    if (waiting_ > 0)
      changed_.notify_all();
  }
  bool abandoned() const {
    std::lock_guard lock{mutex_};
    return abandoned_;
  }

  /// Waits until the parameter is open.
  /// Errors: PassAbandoned.
  void await(size_t parameter);
  /// The same for all.
  void await_all() {
    for (size_t i = 0; i < open_.size(); ++i)
      await(i);
  }
  /// For how long somebody has waited.
  Clock::duration waited() const {
    std::lock_guard lock{mutex_};
    return waited_;
  }

private:
  const Clock::duration patience_;
  std::atomic<bool> whole_{false}; ///< all are open, nobody has given up
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> open_;
  size_t closed_;
  bool abandoned_ = false;
  size_t waiting_ = 0;
  Clock::time_point since_; ///< somebody waits
  Clock::duration waited_{};
};

} // namespace troupe
