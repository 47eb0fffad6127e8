#include "apps/bench/reduce_pattern.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace troupe {

namespace {

constexpr uint64_t shift = 17; // of an iteration

/// Calls run(offset in the vector, offset in the pattern, length) until it
/// returns false; returns whether it never did.
template <class Run>
bool for_each_run(uint64_t count, uint32_t iteration, Run run) {
  auto at = shift * iteration % ReducePattern::period;
  for (uint64_t i = 0; i < count; at = 0) {
    const auto length = std::min(ReducePattern::period - at, count - i);
    if (!run(i, at, length))
      return false;
    i += length;
  }
  return true;
}

} // namespace

ReducePattern ReducePattern::of(uint32_t rank, bool exact_in_any_order) {
  ReducePattern pattern;
  for (uint32_t i = 0; i < period; ++i) {
    auto x = (i + 1) * 0x9e3779b1u ^ (rank + 1) * 0x85ebca6bu;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x ^= x >> 13;
    pattern.values_[i] = exact_in_any_order
                           ? static_cast<float>(x & 0xffff) - 0x8000
                           : static_cast<float>(static_cast<int32_t>(x))
                               * 0x1p-31f;
  }
  return pattern;
}

ReducePattern ReducePattern::node(uint32_t lo, uint32_t hi, bool exact) {
  if (hi - lo == 1)
    return of(lo, exact);
  const auto middle = lo + std::bit_floor(hi - lo - 1);
  auto left = node(lo, middle, exact);
  const auto right = node(middle, hi, exact);
  for (uint64_t i = 0; i < period; ++i)
    left.values_[i] += right.values_[i];
  return left;
}

ReducePattern ReducePattern::sum(uint32_t members, bool exact_in_any_order) {
  return node(0, members, exact_in_any_order);
}

void ReducePattern::fill(float* data, uint64_t count,
                         uint32_t iteration) const {
  for_each_run(count, iteration, [&](uint64_t i, uint64_t at, uint64_t length) {
    std::memcpy(data + i, values_.data() + at, length * sizeof(float));
    return true;
  });
}

bool ReducePattern::equals(const float* data, uint64_t count,
                           uint32_t iteration) const {
  return for_each_run(
    count, iteration, [&](uint64_t i, uint64_t at, uint64_t length) {
      return std::memcmp(data + i, values_.data() + at, length * sizeof(float))
             == 0;
    });
}

} // namespace troupe
