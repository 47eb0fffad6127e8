#pragma once

#include "apps/settings/settings.hpp"

#include <string>

namespace troupe {

/// Whether two paths are of one file or folder, there or not, whatever links
/// lead to it.
bool is_one_place(const std::string& one, const std::string& other);

/// Refuses two outputs of one place: what is written last would be all that is
/// there. Errors: UsageError.
void check_outputs(const Settings& settings);

/// Refuses an output that would be written over what is read: weights, samples,
/// a model, the configuration (`config`; empty: none). Lists of samples are
/// read where an output is there already.
/// Errors: UsageError.
void check_inputs(const Settings& settings, const std::string& config);

} // namespace troupe
