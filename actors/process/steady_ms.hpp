#pragma once

#include <chrono>
#include <cstdint>

namespace troupe {

/// The steady clock in milliseconds, as the machines of strategies/ take it.
inline uint64_t steady_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
           std::chrono::steady_clock::now().time_since_epoch())
    .count();
}

} // namespace troupe
