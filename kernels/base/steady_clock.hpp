#pragma once

#include <atomic>
#include <chrono>

namespace troupe {

/// The clock of all deadlines, pauses and measurements: the steady one of the
/// standard library, unless a simulator passes in its own. Its moments are of
/// that one's type, which condition variables take.
class SteadyClock {
public:
  using duration = std::chrono::steady_clock::duration;
  using rep = std::chrono::steady_clock::rep;
  using period = std::chrono::steady_clock::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;

  static time_point now() noexcept {
    const auto source = source_.load(std::memory_order_relaxed);
    return source == nullptr ? std::chrono::steady_clock::now() : source();
  }

  using Source = time_point (*)() noexcept;
  /// From here on time is what `source` says. Call it before anybody asks.
  static void pass_in(Source source) noexcept { source_ = source; }

private:
  static inline std::atomic<Source> source_{nullptr};
};

} // namespace troupe
