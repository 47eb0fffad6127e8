#pragma once

#include "actors/wire/interfaces.hpp"

#include <functional>
#include <string>

namespace troupe {

/// Waits until all roles of this process, which `self` monitors, have ended, or
/// one of them by a failure, and returns why. When `wish` returns a reason to
/// go, the coordinator is asked to do without `role`: it hands over what it has
/// and ends like a role whose run is over. Where the run is ending, or cannot
/// go on without all who were told the same, the role stays until it is over.
/// Errors: std::runtime_error where the job needs it to go on, and it goes all
/// the same.
caf::error wait_until_over(caf::scoped_actor& self,
                           const coordinator_actor& coordinator, uint64_t job,
                           RoleId role, size_t roles,
                           const std::function<std::string()>& wish);

} // namespace troupe
