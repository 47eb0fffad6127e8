#pragma once

#include "tests/sim/runtime_parts.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::sim {

/// Steps drawn from a seed, at each of which something is to happen: so all of
/// a run is hit, however long it takes.
class ReachedSteps {
public:
  /// So many below `end`.
  void draw(Random& random, uint32_t count, uint64_t end) {
    for (uint32_t i = 0; i < count; ++i)
      steps_.push_back(random.below(end));
    std::ranges::sort(steps_, std::greater<>());
  }
  /// Calls happen() for each that is reached, once.
  template <class Happen>
  void reach(uint64_t step, Happen happen) {
    while (!steps_.empty() && steps_.back() <= step) {
      steps_.pop_back();
      happen();
    }
  }
  /// The next one is not waited for any more.
  void skip() { steps_.pop_back(); }
  bool empty() const { return steps_.empty(); }

private:
  std::vector<uint64_t> steps_; ///< falling
};

/// The calm end: a run comes to its end within so long after its last fault, as
/// then nothing fails any more (I11). No fault is drawn for a run's last steps.
class Patience {
public:
  explicit Patience(uint64_t now) : deadline_(now + longest) {}

  /// `faults`: that have taken effect.
  bool is_over(uint64_t now, uint32_t faults) {
    const bool over = now > deadline_;
    if (std::exchange(faults_, faults) != faults)
      deadline_ = now + longest;
    return over;
  }

  /// What is wrong where it is over. `last_note`: the coordinator's last line,
  /// which says who waits for whom where a step stands still.
  static std::string breach(uint64_t step, const std::string& last_note) {
    return "no end is in sight at step " + std::to_string(step)
           + (last_note.empty() ? "" : ", where it was said: " + last_note);
  }

private:
  static constexpr uint64_t longest = 60'000'000; ///< us

  uint64_t deadline_;
  uint32_t faults_ = 0;
};

} // namespace troupe::sim
