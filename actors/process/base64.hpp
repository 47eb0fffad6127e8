#pragma once

#include <optional>
#include <string>

namespace troupe {

/// Bytes as text that a line of JSON has room for, four characters for three.
std::string in_base64(const std::string& bytes);
/// Nothing: it is none.
std::optional<std::string> of_base64(const std::string& text);

} // namespace troupe
