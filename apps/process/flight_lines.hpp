#pragma once

#include "actors/process/flight_seconds.hpp"
#include "apps/settings/settings.hpp"

#include <string>
#include <vector>

namespace troupe {

/// What `troupe events --flight` prints: a line for each of the last seconds of
/// each process of a role, those of one after the other.
std::vector<std::string> flight_lines(const std::vector<FlightSeconds>& all,
                                      const EventsOptions& wanted);

/// Of a folder of recorders, or a --log-dir with one in it.
std::string flight_folder(const std::string& folder);

} // namespace troupe
