#pragma once

#include <istream>
#include <string>

namespace troupe {

/// What is left of a stream. Where that cannot be read (a folder; what /proc
/// says of a process that ended meanwhile) it ends there and `in` is bad():
/// std::istreambuf_iterator would throw.
inline std::string rest_of(std::istream& in) {
  std::string text;
  char part[4096];
  while (in.read(part, sizeof part) || in.gcount() > 0)
    text.append(part, static_cast<size_t>(in.gcount()));
  return text;
}

} // namespace troupe
