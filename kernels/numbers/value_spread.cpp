#include "kernels/numbers/value_spread.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace troupe {
namespace {

constexpr uint32_t sign = 0x80000000;
constexpr uint32_t bits_below = 20; ///< those of a value that a bucket ignores
static_assert(spread_buckets == uint64_t{1} << (32 - bits_below));

/// Numbers that are ordered as values are. -0 comes before 0.
constexpr uint32_t ordered(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits & sign) != 0 ? ~bits : bits | sign;
}

constexpr float value_at(uint32_t number) {
  return std::bit_cast<float>((number & sign) != 0 ? number & ~sign : ~number);
}

constexpr bool is_finite(float value) {
  constexpr uint32_t exponent = 0x7f800000;
  return (std::bit_cast<uint32_t>(value) & exponent) != exponent;
}

} // namespace

ValueSpread spread_of(const float* values, size_t count, float scale) {
  // Sums of several are under way at once, and a bucket has two counts, so that
  // a value does not wait for the one before.
  constexpr size_t lanes = 8;
  constexpr size_t block = 64 * lanes;
  std::array<std::array<uint32_t, spread_buckets>, 2> counts{};
  std::array<double, lanes> sums{};
  std::array<double, lanes> squares{};
  uint32_t least = std::numeric_limits<uint32_t>::max();
  uint32_t most = 0;
  ValueSpread out;
  std::array<float, block> scaled;
  for (size_t begin = 0; begin < count; begin += block) {
    size_t here = 0;
    for (size_t i = begin; i < std::min(count, begin + block); ++i) {
      scaled[here] = values[i] * scale + 0.0f; // no -0
      here += is_finite(scaled[here]) ? 1 : 0;
    }
    out.count += here;
    for (size_t i = 0; i < here; ++i) {
      const auto number = ordered(scaled[i]);
      least = std::min(least, number);
      most = std::max(most, number);
      ++counts[i % 2][number >> bits_below];
    }
    std::fill(scaled.begin() + here, scaled.end(), 0.0f);
    for (size_t i = 0; i < here; i += lanes)
      for (size_t lane = 0; lane < lanes; ++lane) {
        const double wide = scaled[i + lane];
        sums[lane] += wide;
        squares[lane] += wide * wide;
      }
  }
  for (size_t lane = 0; lane < lanes; ++lane) {
    out.sum += sums[lane];
    out.sum_of_squares += squares[lane];
  }
  if (out.count > 0) {
    out.min = value_at(least);
    out.max = value_at(most);
  }
  for (uint32_t bucket = 0; bucket < spread_buckets; ++bucket)
    if (const auto in_it = uint64_t{counts[0][bucket]} + counts[1][bucket];
        in_it > 0) {
      out.buckets.push_back(static_cast<uint16_t>(bucket));
      out.counts.push_back(in_it);
    }
  return out;
}

void merge(ValueSpread& into, const ValueSpread& more) {
  if (more.count == 0)
    return;
  ValueSpread out;
  out.count = into.count + more.count;
  out.min = into.count == 0 ? more.min : std::min(into.min, more.min);
  out.max = into.count == 0 ? more.max : std::max(into.max, more.max);
  out.sum = into.sum + more.sum;
  out.sum_of_squares = into.sum_of_squares + more.sum_of_squares;
  size_t i = 0;
  size_t j = 0;
  while (i < into.buckets.size() || j < more.buckets.size()) {
    const auto left = i < into.buckets.size() ? uint32_t{into.buckets[i]}
                                              : spread_buckets;
    const auto right = j < more.buckets.size() ? uint32_t{more.buckets[j]}
                                               : spread_buckets;
    uint64_t sum = 0;
    if (left <= right)
      sum += into.counts[i++];
    if (right <= left)
      sum += more.counts[j++];
    out.buckets.push_back(static_cast<uint16_t>(std::min(left, right)));
    out.counts.push_back(sum);
  }
  into = std::move(out);
}

double lower_end(uint16_t bucket) {
  return value_at(uint32_t{bucket} << bits_below);
}

double upper_end(uint16_t bucket) {
  constexpr double largest = std::numeric_limits<float>::max();
  const auto end = bucket + 1U < spread_buckets
                     ? lower_end(static_cast<uint16_t>(bucket + 1))
                     : largest;
  return std::isfinite(end) ? end : largest;
}

} // namespace troupe
