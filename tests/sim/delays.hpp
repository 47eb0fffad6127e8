#pragma once

#include <cstdint>

namespace troupe::sim {

// What the simulators draw between, in microseconds.

/// How soon a process notices that a connection of its own has ended.
inline constexpr uint64_t end_notice[2] = {50, 3'000};
/// Until a process is there that takes a dead one's place: a coordinator, a
/// voter.
inline constexpr uint64_t successor_boot[2] = {5'000, 250'000};

} // namespace troupe::sim
