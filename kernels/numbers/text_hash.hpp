#pragma once

#include "kernels/numbers/random.hpp"

#include <cstdint>
#include <string_view>

namespace troupe::kernels {

/// A hash of a text that is the same everywhere: which bucket a category has
/// belongs to the weights.
/// Source: Fowler, Noll, Vo, FNV-1a of 64 bits; then mixed, for its low bits
/// are poor.
inline uint64_t text_hash(std::string_view text) {
  uint64_t result = 0xcbf29ce484222325u;
  for (auto c : text) {
    result ^= static_cast<unsigned char>(c);
    result *= 0x100000001b3u;
  }
  return mix(result);
}

} // namespace troupe::kernels
