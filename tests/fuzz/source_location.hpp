#pragma once

#include <source_location>

#if !__has_builtin(__builtin_source_location)
namespace std {
/// As much of it as assertions use.
struct source_location {
  static constexpr source_location
  current(const char* file = __builtin_FILE(),
          unsigned line = __builtin_LINE()) noexcept {
    source_location here;
    here.file = file;
    here.number = line;
    return here;
  }
  constexpr const char* file_name() const noexcept { return file; }
  constexpr unsigned line() const noexcept { return number; }

  const char* file = "";
  unsigned number = 0;
};
} // namespace std
#endif
