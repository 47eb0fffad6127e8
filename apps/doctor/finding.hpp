#pragma once

#include <string>
#include <vector>

namespace troupe {

/// What was looked at, and what came out.
struct Finding {
  enum class Kind { good, note, wrong } kind = Kind::good;
  std::string what;   ///< "clock"
  std::string found;  ///< in one line
  std::string remedy; ///< what to do; empty: nothing
};

/// "ok     clock       is kept by a time service", and "       -> …" where
/// there is something to do. `width`: of the second column, at least.
std::string in_lines(const std::vector<Finding>& findings, size_t width = 0);

} // namespace troupe
