#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// What a member brings to a collective, for the others to compare and to
/// find. Addresses are offsets from the base of its segment.
struct Brought {
  static constexpr uint32_t max_vectors = 32;
  static constexpr uint32_t max_results = 8;

  uint64_t step = 0;
  uint64_t layout = 0;   ///< hash of the bucket layout
  uint64_t elements = 0; ///< that its arrays have
  uint64_t program = 0;  ///< hash
  uint32_t plain = 0;    ///< 1: an all_reduce, not a step
  uint32_t buckets = 0;
  uint32_t results = 0;
  uint32_t updates = 0; ///< 1: with an update
  uint32_t vectors = 0; ///< members may differ
  uint64_t result_at[max_results] = {};
  uint64_t vector_at[max_vectors] = {};
};

std::string member_name(uint32_t rank);

/// Says what `other` brought that differs from `first`, to be read after
/// "brought"; empty where nothing does.
std::string difference(const Brought& first, const Brought& other);

} // namespace troupe
