#pragma once

#include "actors/launch/job_runner.hpp"
#include "apps/settings/settings.hpp"
#include "apps/terminal/console.hpp"
#include "apps/terminal/interrupt.hpp"

namespace troupe {

/// The events of a run, shown on a console; both must outlive the run.
RunEvents shown_on(Console& console, const Interrupt& interrupt,
                   uint64_t log_every);

/// Prints how the run ended; returns the exit status. A failure is one line on
/// standard error.
int conclude(Console& console, const RunResult& result);

} // namespace troupe
