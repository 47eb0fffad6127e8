#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

/// Finds, in the first steps of a group, which of a few bucket layouts costs
/// least: tries them by turns, then all members add up what they measured and
/// take the same one. Sums do not depend on the layout, so nor do bits.
///
///   warming up -> trying, by turns -> due: all add up costs() -> settled
class BucketTuning {
public:
  /// Steps of each candidate that count, after those that warm up.
  static constexpr uint32_t trials = 4;
  static constexpr uint32_t warm_up_steps = 3;

  /// Errors: no candidate is a bug and asserts.
  explicit BucketTuning(uint32_t candidates);

  /// The candidate of the next step; the same on all members.
  uint32_t next() const;
  /// The step with next() took so long here.
  void took(double seconds);
  /// All candidates have been tried: costs() are to be added up over all
  /// members and given to settle().
  bool is_due() const;
  /// Per candidate the shortest step, seconds.
  const std::vector<float>& costs() const { return costs_; }
  void settle(const std::vector<float>& costs_of_all);

private:
  uint32_t steps_ = 0;
  bool settled_ = false;
  uint32_t chosen_ = 0;
  std::vector<float> costs_;
};

} // namespace troupe
