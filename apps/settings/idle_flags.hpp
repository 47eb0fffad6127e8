#pragma once

#include "apps/settings/settings.hpp"

#include <map>
#include <string>

namespace troupe {

/// Refuses flags of the command line that would do nothing with the strategy,
/// optimizer, tables, links or data that hold, and says with what they would.
/// A default that is said is what holds anyway, and taken.
/// Errors: UsageError.
void refuse_idle_flags(const Settings& settings,
                       const std::map<std::string, std::string>& flags);

/// Whether roles of the job may be processes, on one host or several.
bool may_be_apart(const JobOptions& job);

/// The same of flags that say how samples are reached, of every command that
/// reads some.
void refuse_idle_data_flags(const Settings& settings,
                            const std::map<std::string, std::string>& flags);

} // namespace troupe
