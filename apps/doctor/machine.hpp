#pragma once

#include "apps/doctor/finding.hpp"
#include "apps/settings/settings.hpp"

namespace troupe {

/// Looks at what a run needs of this machine, and at what the settings name:
/// --listen, --certificates, --coordinator, --data. Every wait has a deadline,
/// but for CUDA's of its driver.
std::vector<Finding> examine_machine(const Settings& settings);

/// Tries what --devices names, kind by kind: it takes seconds, and two minutes
/// a kind at most.
std::vector<Finding> examine_devices(const Settings& settings);

} // namespace troupe
