#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace troupe::kernels {

/// Ends the process when `holds` is false: an assertion that stays in release.
/// For bugs of the caller only; what a user gets wrong is an InputError.
inline void
require(bool holds, const char* what,
        std::source_location where = std::source_location::current()) {
  if (holds) [[likely]]
    return;
  std::fprintf(stderr, "%s:%u: bug: %s\n", where.file_name(),
               static_cast<unsigned>(where.line()), what);
  std::abort();
}

} // namespace troupe::kernels
