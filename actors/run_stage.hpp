#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

/// A run goes through
///
///   running -> pausing -> ending -> concluding -> over
///      |    (Ctrl-C only)    ^
///      +---------------------+   the last step is committed
///
/// and from anywhere to over when it fails.
enum class RunStage : uint8_t { running, pausing, ending, concluding, over };

/// The user's wish to end it before.
struct StopWish {
  bool asked = false;
  std::string why;
  std::chrono::steady_clock::time_point deadline;
};

/// What observers are told when a coordinator goes on from a journal.
inline std::string back_line(uint64_t term) {
  return "the coordinator is back, its term is " + std::to_string(term);
}

} // namespace troupe
