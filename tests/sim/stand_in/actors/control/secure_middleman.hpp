#pragma once

#include "actors/caf.hpp"

namespace troupe {

inline caf::actor secure_middleman(const caf::actor_system&) {
  return {};
}

} // namespace troupe
