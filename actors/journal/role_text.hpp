#pragma once

#include "strategies/role_id.hpp"

#include <string>

namespace troupe {

/// What to_string(RoleId) wrote.
/// Errors: InputError for anything else.
RoleId role_from_text(const std::string& text);

} // namespace troupe
