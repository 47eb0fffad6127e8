#pragma once

#include "actors/wire/caf.hpp"

namespace troupe {

inline caf::actor secure_middleman(const caf::actor_system&) {
  return {};
}

} // namespace troupe
