#pragma once

#include "apps/settings/settings.hpp"

#include <map>
#include <string>

namespace troupe {

/// A value of the configuration file and where it stands.
struct ConfigValue {
  std::string text;
  std::string where; ///< "job.toml:3"
};

/// Reads a TOML file with a key for each flag, its dashes written as - or _; a
/// toggle that is false counts as not given.
/// Errors: InputError when the file cannot be read; UsageError naming file,
/// line and key (syntax, unknown key, a table or list, a flag that is not
/// available yet).
std::map<std::string, ConfigValue> read_config(const std::string& path);

} // namespace troupe
