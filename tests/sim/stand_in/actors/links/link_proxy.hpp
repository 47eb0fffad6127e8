#pragma once

#include "actors/wire/caf.hpp"

namespace troupe {

inline std::string why_link_ended(const caf::error& reason) {
  return caf::to_string(reason);
}

/// Streams have no credit here: nothing waits.
inline uint64_t queued_bytes(const caf::strong_actor_ptr&) {
  return 0;
}

} // namespace troupe
