#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe::kernels {

/// When a row was last touched (40 bits) and how often (24, which stay at the
/// most), in one word that orders rows by age, then frequency.
constexpr uint64_t max_touches = (uint64_t{1} << 24) - 1;

constexpr uint64_t last_touch(uint64_t word) {
  return word >> 24;
}
constexpr uint64_t touches(uint64_t word) {
  return word & max_touches;
}

constexpr uint64_t touched_at(uint64_t word, uint64_t version) {
  return version << 24 | std::min(touches(word) + 1, max_touches);
}

} // namespace troupe::kernels
