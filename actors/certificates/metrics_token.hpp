#pragma once

#include <string>

namespace troupe {

/// In a folder of certificates.
inline constexpr const char* metrics_token_file = "metrics-token";

/// Reads what readers of metrics show, and makes it where there is no such
/// file: one line that nobody guesses.
/// Errors: InputError naming the file.
std::string keep_metrics_token(const std::string& path);
/// Only reads it. Errors: as before, also where there is none.
std::string metrics_token_in(const std::string& path);

} // namespace troupe
