#pragma once

#include "kernels/cpu/isa.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace troupe::kernels {

/// What float32 values sum up to that were looked at so far.
struct SpreadSums {
  static constexpr size_t lanes = 16; ///< sums under way at once

  uint64_t finite = 0;
  /// Numbers that are ordered as values are, of those that are finite.
  uint32_t least = std::numeric_limits<uint32_t>::max();
  uint32_t most = 0;
  std::array<double, lanes> sums{};
  std::array<double, lanes> squares{};
};

/// The loop of spread_of(), compiled for one instruction set; all tables give
/// the same bits.
struct SpreadLoops {
  /// Looks at values [count], each times `scale`, whose -0 is 0: adds them to
  /// `sums`, and writes the bucket of each, the twelve highest bits of its
  /// number; 4096 of one that is not finite. `count` is a multiple of
  /// SpreadSums::lanes.
  void (*look)(const float* values, size_t count, float scale, SpreadSums& sums,
               uint32_t* buckets);
};

const SpreadLoops& spread_loops(Isa isa);
const SpreadLoops& spread_loops();

} // namespace troupe::kernels
