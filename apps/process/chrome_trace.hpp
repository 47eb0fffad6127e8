#pragma once

#include "actors/process/flight_recorder.hpp"

#include <string>
#include <vector>

namespace troupe {

/// What roles did, in the JSON form of Chrome's trace viewer and Perfetto: a
/// process a role's life, a track an activity, times in microseconds from the
/// first span on. Clocks of hosts are put together by Unix time.
/// Source: "Trace Event Format", Google.
std::string chrome_trace(const std::vector<Flight>& flights);

/// Reads a folder of flight recorders and writes their trace; returns a line
/// that says how much. Errors: InputError.
std::string draw_timeline(const std::string& folder, const std::string& file);

} // namespace troupe
