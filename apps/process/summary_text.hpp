#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace troupe {

/// A summary as people read it: a line for each array or object that has no
/// other ones in it, however long, and one for each part of those that have.
/// Bytes that are not UTF-8 are replaced.
std::string summary_text(const nlohmann::ordered_json& summary);

} // namespace troupe
