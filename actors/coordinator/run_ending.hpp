#pragma once

#include "actors/job/snapshot_book.hpp"
#include "actors/wire/messages.hpp"
#include "kernels/base/steady_clock.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// The user's wish to end a run before its last step.
struct StopWish {
  bool asked = false;
  std::string why; ///< "interrupted", "terminated", "hung up"
  SteadyClock::time_point since;
};

/// What is there of the end of a run, on its way through run_stage.hpp.
struct RunEnding {
  StopWish stop;
  uint64_t asked_epoch = 0; ///< async: whose members send the last version
  std::optional<Snapshot> last;
  bool last_evaluated = false;
  bool writes = false; ///< what the run leaves behind is being made, or is
  std::optional<Finished> outcome;
  bool supervised = false; ///< by anybody, so far, who must know of the end
  /// How long the others may take to read that and go.
  SteadyClock::time_point leave_deadline;
};

} // namespace troupe
