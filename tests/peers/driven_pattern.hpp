#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace driven {

/// Vectors repeat a pattern, whole numbers that depend on the rank, from a
/// place that depends on the iteration: sums are exact in any order, and
/// neither filling nor comparing takes memory out of the caches.
constexpr uint64_t period = 4'093;

class Pattern {
public:
  void add(uint32_t rank) {
    for (uint32_t i = 0; i < period; ++i) {
      auto x = (i + 1) * 0x9e3779b1u ^ rank * 0x85ebca6bu;
      x ^= x >> 15;
      values_[i] +=
        static_cast<float>(static_cast<int32_t>(x & 0xffff) - 0x8000);
    }
  }
  void fill(float* data, uint64_t count, uint64_t iteration) const {
    auto at = 17 * iteration % period;
    for (uint64_t i = 0; i < count; at = 0) {
      const auto run = std::min(period - at, count - i);
      std::memcpy(data + i, values_ + at, run * sizeof(float));
      i += run;
    }
  }
  bool equals(const float* data, uint64_t count, uint64_t iteration) const {
    auto at = 17 * iteration % period;
    for (uint64_t i = 0; i < count; at = 0) {
      const auto run = std::min(period - at, count - i);
      if (std::memcmp(data + i, values_ + at, run * sizeof(float)) != 0)
        return false;
      i += run;
    }
    return true;
  }

private:
  float values_[period] = {};
};

} // namespace driven
