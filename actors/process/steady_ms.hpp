#pragma once

#include "kernels/base/steady_clock.hpp"

#include <chrono>
#include <cstdint>

namespace troupe {

/// The steady clock in milliseconds, as the machines of strategies/ take it.
inline uint64_t steady_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
           SteadyClock::now().time_since_epoch())
    .count();
}

} // namespace troupe
