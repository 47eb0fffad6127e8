#pragma once

#include "apps/settings/settings.hpp"

#include <map>
#include <string>

namespace troupe {

/// Reads a role's name: worker:0, ps:1, evaluator:0 or coordinator.
/// Errors: UsageError.
RoleId parse_role(const std::string& text);

/// Reads the name of a process: a role's, or sharded:0, which is worker:0 and
/// `paired` with the shard of its number. Errors: UsageError.
RoleId parse_process(const std::string& text, bool& paired);

/// Checks what no single flag reveals. `flags` are those of the command line:
/// one that has no effect there is refused, while a configuration file may hold
/// values for several commands and strategies.
/// Errors: as parse_settings.
void check_settings(const Settings& settings,
                    const std::map<std::string, std::string>& flags);

} // namespace troupe
