#pragma once

#include "kernels/base/steady_clock.hpp"

#include <chrono>

namespace troupe {

/// Seconds from `begin` until now.
inline double seconds_since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

} // namespace troupe
