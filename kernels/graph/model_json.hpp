#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace troupe::kernels {

/// Keeps the order of keys.
using Json = nlohmann::ordered_json;

/// Parses JSON, strictly: a key that comes twice is refused.
/// Errors: UsageError "WHERE:line:column: not valid JSON: …".
Json parse_json(const std::string& text, const std::string& where);

/// JSON on one line, with blanks after commas and colons.
std::string dumped(const Json& json);

} // namespace troupe::kernels
