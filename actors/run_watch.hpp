#pragma once

#include "actors/interfaces.hpp"
#include "actors/job_runner.hpp"

namespace troupe {

/// Follows a run from outside its coordinator until it is over. A reason to
/// stop, and wishes to change it, go to the coordinator (RunEvents).
RunResult watch(caf::scoped_actor& self, const coordinator_actor& coordinator,
                const RunEvents& events);

} // namespace troupe
