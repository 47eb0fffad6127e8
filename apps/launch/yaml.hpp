#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace troupe {

/// Prints values as YAML documents in block style, keys in their order. Text of
/// several lines that ends with one is a literal block; what YAML 1.1 or 1.2
/// would take for something else than text is quoted, as JSON quotes it.
/// Errors: nlohmann::json::exception for text that is not UTF-8.
/// Source: YAML 1.2.2, chapters 7 and 8.
std::string
to_yaml_documents(const std::vector<nlohmann::ordered_json>& values);

} // namespace troupe
