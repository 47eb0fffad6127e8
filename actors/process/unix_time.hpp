#pragma once

#include "kernels/base/steady_clock.hpp"

#include <chrono>
#include <cstdint>

namespace troupe {

/// A time of the steady clock as Unix milliseconds, and back: exact as long as
/// nobody sets the machine's clock.
inline uint64_t to_unix_ms(SteadyClock::time_point time) {
  using namespace std::chrono;
  const auto now = system_clock::now().time_since_epoch()
                   + (time - SteadyClock::now());
  return static_cast<uint64_t>(duration_cast<milliseconds>(now).count());
}

inline SteadyClock::time_point from_unix_ms(uint64_t ms) {
  using namespace std::chrono;
  const auto ago = system_clock::now().time_since_epoch()
                   - milliseconds{static_cast<int64_t>(ms)};
  return SteadyClock::now() - duration_cast<SteadyClock::duration>(ago);
}

/// Seconds since 1970, as the machine's clock has them.
inline double unix_seconds() {
  return std::chrono::duration<double>(
           std::chrono::system_clock::now().time_since_epoch())
    .count();
}

} // namespace troupe
