#pragma once

#include "apps/settings/settings.hpp"

#include <string>

namespace troupe {

/// What holds for a command where nothing is given.
Settings defaults_of(const std::string& command);

} // namespace troupe
