#pragma once

#include "actors/page/job_watch.hpp"
#include "apps/doctor/finding.hpp"

#include <optional>

namespace troupe {

/// What holds a running job up: one culprit, one cause, one thing to do; what
/// is worst comes first. Or, of a job that runs as it should, where the time of
/// its steps goes.
/// `address`: of the run's metrics, for commands.
/// A step counts as late once looks have found it so for a while.
Finding diagnose(const JobView& job, const std::string& address);

/// What needs no rates, and so no further look; empty: nothing, yet.
std::optional<Finding> diagnose_at_once(const JobView& job);

/// Whether another look, a moment later, will tell more.
bool is_undecided(const JobView& job);

} // namespace troupe
