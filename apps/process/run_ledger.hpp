#pragma once

#include "actors/process/flight_recorder.hpp"
#include "strategies/time_ledger.hpp"

#include <map>
#include <string>
#include <vector>

namespace troupe {

/// What each role's time went to, by its name, from what its processes'
/// recorders still have. `run`: from when to when, in nanoseconds of Unix time.
/// `all_came`: there is nobody else's, of a host that is lost.
std::map<std::string, TimeLedger> ledgers_of(const std::vector<Flight>& flights,
                                             TimeSpan run,
                                             bool all_came = true);

/// Returns a run's summary with them, in seconds; as it is where it is empty or
/// the folder has no recorders' files.
std::string with_ledger(const std::string& summary, const std::string& folder,
                        TimeSpan run, bool all_came = true);

} // namespace troupe
