#pragma once

#include <cstdint>

namespace troupe::sim {

// What the simulators draw between, in microseconds.

/// How soon a process notices that a connection of its own has ended.
inline constexpr uint64_t end_notice[2] = {50, 3'000};
/// Until a process is there that takes a dead one's place: a coordinator, a
/// voter.
inline constexpr uint64_t successor_boot[2] = {5'000, 250'000};
/// Until a process is there for its role's actor; now and then.
inline constexpr uint64_t boot[2] = {1'000, 40'000};
inline constexpr uint64_t slow_boot[2] = {40'000, 400'000};
inline constexpr uint64_t hello_deadline = 1'000'000;
/// How long a role that is to leave may take.
inline constexpr uint64_t retire_deadline = 2'000'000;

/// A process stands still for less than silence takes, or for longer.
inline constexpr uint64_t paused_for[2] = {1'000, 400'000};
inline constexpr uint64_t stopped_for[2] = {5'500'000, 8'000'000};
/// How far the coordinator's clock is ahead when it goes on.
inline constexpr uint64_t clock_ahead[2] = {50'000, 3'000'000};
/// Nothing gets from one process to another; of a control connection that is
/// noticed after so long.
inline constexpr uint64_t blocked_for[2] = {5'000, 3'000'000};
inline constexpr uint64_t heartbeat_fails = 2'000'000;
/// Messages are late for so long, by up to so much.
inline constexpr uint64_t late_for[2] = {5'000, 60'000};
inline constexpr uint64_t late_by[2] = {1'000, 25'000};

} // namespace troupe::sim
