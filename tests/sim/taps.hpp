#pragma once

#include "tests/sim/printed.hpp"

#include <cstdint>
#include <functional>

namespace troupe::sim {

/// Who looks on, beside Runtime's tap. Set before a world runs.
struct Taps {
  /// Is shown each message that leaves a process for another one.
  std::function<void(uint32_t from, uint32_t to, const Letter&)> sent;
  /// A process hears of the end of another's actor.
  std::function<void(uint32_t process, uint32_t of)> ended;
};
inline Taps taps;

} // namespace troupe::sim
