#pragma once

#include <cstdio>
#include <cstdlib>

namespace troupe::strategies {

/// Ends the process when `holds` is false: an assertion that stays in release.
/// For bugs of the caller only; what a user or a peer can get wrong is a value.
inline void require(bool holds, const char* what,
                    const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  // Not std::source_location: clang 14, whose clang-tidy reads this, lacks it.
  if (holds) [[likely]]
    return;
  std::fprintf(stderr, "%s:%d: bug: %s\n", file, line, what);
  std::abort();
}

} // namespace troupe::strategies
