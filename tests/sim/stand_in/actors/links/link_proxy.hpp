#pragma once

#include "actors/caf.hpp"

namespace troupe {

inline std::string why_link_ended(const caf::error& reason) {
  return caf::to_string(reason);
}

} // namespace troupe
