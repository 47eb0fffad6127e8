#pragma once

#include "kernels/base/steady_clock.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe {

/// The steady clock less what this process stood still for: Ctrl-Z stops a job
/// and `fg` goes on with it, so no deadline may count the time between. Its
/// owner is an actor that looks at it steadily: a look that comes far too late
/// tells that nobody ran.
class RunClock {
public:
  using Clock = SteadyClock;

  /// Milliseconds, for machines of strategies/.
  uint64_t ms() {
    look(Clock::now());
    using std::chrono::milliseconds;
    const auto ran = looked_.time_since_epoch() - stood_still_;
    return std::chrono::duration_cast<milliseconds>(ran).count();
  }
  /// Returns for how long nobody ran since the last call: moments that were
  /// noted down are to be moved by so much.
  Clock::duration take_pause(Clock::time_point now) {
    look(now);
    return std::exchange(untaken_, {});
  }

private:
  static constexpr std::chrono::milliseconds late{1'000};

  void look(Clock::time_point now) {
    const auto gap = now - looked_;
    if (looked_ != Clock::time_point{} && gap >= late) {
      stood_still_ += gap;
      untaken_ += gap;
    }
    looked_ = std::max(looked_, now);
  }

  Clock::time_point looked_;
  Clock::duration stood_still_{};
  Clock::duration untaken_{};
};

} // namespace troupe
