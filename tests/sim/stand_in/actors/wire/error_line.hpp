#pragma once

#include "actors/wire/caf.hpp"

#include <string>

namespace troupe {

inline std::string line_of(const caf::error& why) {
  return why.line();
}

inline caf::error bad_input(const std::string& line) {
  return caf::make_error(caf::sec::runtime_error, line);
}

} // namespace troupe
