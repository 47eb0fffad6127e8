#pragma once

#include "strategies/role_names.hpp"

namespace troupe {

/// This process, by which the coordinator tells it from another of its role.
RoleProcess own_process();

} // namespace troupe
