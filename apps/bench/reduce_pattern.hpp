#pragma once

#include <array>
#include <cstdint>

namespace troupe {

/// What members fill their vectors with: a pattern that depends on the rank and
/// repeats, beginning at a place that depends on the iteration. So neither
/// filling nor comparing takes a vector out of the caches.
class ReducePattern {
public:
  static constexpr uint64_t period = 4'093; // prime: no run's length divides it

  /// The pattern of one member. exact_in_any_order: whole numbers, whose sums
  /// are not rounded; otherwise numbers of which every bit counts.
  static ReducePattern of(uint32_t rank, bool exact_in_any_order);
  /// The sum over members [0, members) along the fixed tree: [lo, hi) splits
  /// at lo + the largest power of two below hi - lo.
  static ReducePattern sum(uint32_t members, bool exact_in_any_order);

  void fill(float* data, uint64_t count, uint32_t iteration) const;
  bool equals(const float* data, uint64_t count, uint32_t iteration) const;

private:
  static ReducePattern node(uint32_t lo, uint32_t hi, bool exact);

  std::array<float, period> values_{};
};

} // namespace troupe
