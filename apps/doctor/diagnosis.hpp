#pragma once

#include "actors/page/job_watch.hpp"
#include "apps/doctor/finding.hpp"

namespace troupe {

/// What holds a running job up: one culprit, one cause, one thing to do; what
/// is worst comes first. Or, of a job that runs as it should, where the time of
/// its steps goes.
/// `address`: of the run's metrics, for commands.
Finding diagnose(const JobView& job, const std::string& address);

} // namespace troupe
