#pragma once

#include <string>

namespace troupe {

/// Text of `troupe --help` (topic empty) and of `troupe COMMAND --help`, at
/// most 80 columns wide.
/// Errors: UsageError for an unknown topic.
std::string help(const std::string& topic);

} // namespace troupe
