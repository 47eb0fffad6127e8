#pragma once

#include "actors/launch/job_runner.hpp"
#include "actors/wire/interfaces.hpp"

namespace troupe {

/// Follows a run from outside its coordinator until it is over. A reason to
/// stop, and wishes to change it, go to the coordinator (RunEvents).
RunResult watch(caf::scoped_actor& self, const coordinator_actor& coordinator,
                const RunEvents& events);

} // namespace troupe
