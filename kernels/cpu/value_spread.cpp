#include "kernels/cpu/value_spread.hpp"

#include "kernels/cpu/spread_loops.hpp"

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

/// Of a number that is ordered as values are.
constexpr float value_at(uint32_t number) {
  return std::bit_cast<float>((number & sign) != 0 ? number & ~sign : ~number);
}

} // namespace

ValueSpread spread_of(const float* values, size_t count, float scale) {
  // A bucket has several counts, so that a value does not wait for the one
  // before, where many lie in one bucket.
  constexpr size_t counters = 4;
  constexpr size_t lanes = kernels::SpreadSums::lanes;
  constexpr size_t block = 32 * lanes;
  static_assert(lanes % counters == 0);
  std::array<std::array<uint32_t, spread_buckets + 1>, counters> counts{};
  std::array<uint32_t, block> bucket_of;
  kernels::SpreadSums sums;
  const auto& loops = kernels::spread_loops();
  const auto look = [&](const float* from, size_t whole) {
    loops.look(from, whole, scale, sums, bucket_of.data());
    for (size_t i = 0; i < whole; i += counters)
      for (size_t k = 0; k < counters; ++k)
        ++counts[k][bucket_of[i + k]];
  };
  const auto whole = count / lanes * lanes;
  for (size_t begin = 0; begin < whole; begin += block)
    look(values + begin, std::min(block, whole - begin));
  if (whole < count) {
    std::array<float, lanes> rest;
    rest.fill(std::numeric_limits<float>::infinity());
    std::copy(values + whole, values + count, rest.begin());
    look(rest.data(), lanes);
  }
  ValueSpread out;
  out.count = sums.finite;
  for (size_t lane = 0; lane < lanes; ++lane) {
    out.sum += sums.sums[lane];
    out.sum_of_squares += sums.squares[lane];
  }
  if (out.count == 0)
    return out;
  out.min = value_at(sums.least);
  out.max = value_at(sums.most);
  for (auto bucket = sums.least >> bits_below;
       bucket <= sums.most >> bits_below; ++bucket) {
    uint64_t in_it = 0;
    for (const auto& some : counts)
      in_it += some[bucket];
    if (in_it == 0)
      continue;
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
