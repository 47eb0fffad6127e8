#pragma once

#include "actors/wire/interfaces.hpp"

#include <chrono>

namespace troupe {

/// Asks the coordinator for the job, and what `role` is in it: again where the
/// one that was asked ends before it answers, being deposed or started again.
/// Waits while it is not known whether the name is free. Blocks.
/// Errors: InputError with the coordinator's reason, or that it has none.
JobInfo
ask_for_job(caf::scoped_actor& self, const coordinator_actor& coordinator,
            RoleId role,
            std::chrono::milliseconds deadline = std::chrono::seconds{30});

} // namespace troupe
