#pragma once

#include "actors/job/snapshot_book.hpp"
#include "actors/wire/messages.hpp"
#include "kernels/base/steady_clock.hpp"

#include <chrono>
#include <optional>

namespace troupe {

/// What is there of the end of a run, which strategies/run_course.hpp orders.
struct RunEnding {
  SteadyClock::time_point stopped; ///< when a signal was heard of, if one was
  std::optional<Snapshot> last;    ///< version of all slices
  std::optional<Finished> outcome;
  bool supervised = false; ///< by anybody, so far, who must know of the end
  /// How long the others may take to read that and go.
  SteadyClock::time_point leave_deadline;
};

} // namespace troupe
