#pragma once

#include "apps/settings/settings.hpp"

namespace troupe {

/// Measures all-reduces between actors of one process: what a member and what
/// a byte costs.
int run_member_costs(const Settings& settings);

} // namespace troupe
