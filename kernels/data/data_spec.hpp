#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Data specification `KIND:WHERE[?key=value&…]` taken apart
/// (docs/command_line.md).
struct DataSpec {
  std::string kind;
  std::string where;
  std::vector<std::pair<std::string, std::string>> options;

  bool operator==(const DataSpec&) const = default;
};

/// Checks kind, keys and values without touching any file.
/// Errors: UsageError (unknown kind, unknown key, malformed value).
DataSpec parse_data_spec(const std::string& text);

/// The same of samples that are more than predicted. Errors: also one that
/// names no labels.
DataSpec parse_labelled_spec(const std::string& text);

/// The specification as somebody would type it.
std::string to_string(const DataSpec& spec);

} // namespace troupe
