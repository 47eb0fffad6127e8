#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe {

/// How some float32 values are spread: how many lie in each bucket of those
/// that have any. A bucket has one sign, one power of two, and an eighth of
/// what lies between that and the next; so the buckets of two spreads are the
/// same ones, and can be added. What is not finite is left out.
struct ValueSpread {
  uint64_t count = 0;
  double min = 0; ///< of no values 0, and so is the rest
  double max = 0;
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<uint16_t> buckets; ///< ascending, as their values are
  std::vector<uint64_t> counts;  ///< of those
};

/// Of values [count], each times `scale`.
ValueSpread spread_of(const float* values, size_t count, float scale = 1);

/// As if all had been one's.
void merge(ValueSpread& into, const ValueSpread& more);

/// Where the values of a bucket begin and end. Number: below spread_buckets.
inline constexpr uint32_t spread_buckets = 4096;
double lower_end(uint16_t bucket);
double upper_end(uint16_t bucket);

} // namespace troupe
