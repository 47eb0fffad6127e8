#pragma once

#include <string>

namespace troupe {

/// The flags by which a job (JobOptions as JSON) is another than the one that
/// `there` is of: "--epochs is 600 there and 60 here, and so on". Empty: none.
std::string other_flags(const std::string& there, const std::string& here);

} // namespace troupe
