#pragma once

#include "actors/wire/caf.hpp"

#include <string>

namespace troupe {

inline std::string line_of(const caf::error& why) {
  return why.line();
}

} // namespace troupe
