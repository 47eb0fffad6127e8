#pragma once

#include "apps/doctor/finding.hpp"
#include "apps/settings/settings.hpp"

namespace troupe {

/// Looks at what a run needs of this machine, and at what the settings name:
/// --listen, --certificates, --coordinator, --data, --devices. Every wait has a
/// deadline.
std::vector<Finding> examine_machine(const Settings& settings);

} // namespace troupe
