#pragma once

#include "actors/wire/interfaces.hpp"

#include <chrono>
#include <functional>
#include <string>

namespace troupe {

/// Asks the coordinator for the job, and what `role` is in it: again where the
/// one that was asked ends before it answers, being deposed or started again.
/// Waits while it is not known whether the name is free. Blocks.
/// Errors: InputError with the coordinator's reason, or that it has none.
JobInfo
ask_for_job(caf::scoped_actor& self, const coordinator_actor& coordinator,
            RoleId role,
            std::chrono::milliseconds deadline = std::chrono::seconds{30});

/// Ends the connections to a coordinator that may be on another host and does
/// not answer (ControlLineOptions::hang_up); empty: it is on this one.
std::function<void()> hang_up_on(const std::string& coordinator);

/// Tells whether its host is cut off (ControlLineOptions::cut_off); empty: it
/// is this one.
std::function<bool(std::chrono::milliseconds)>
cut_off_from(const std::string& coordinator);

} // namespace troupe
