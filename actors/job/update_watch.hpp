#pragma once

#include "actors/wire/messages/supervision.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "strategies/slicing.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace troupe {

/// Looks at updates of slices from time to time, and tells how values and
/// gradients are spread: as few times as it can. One a process; any thread.
class UpdateWatch {
public:
  using Tell = std::function<void(const Spreads&)>;

  /// It looks at each `every`-th step, and at the last one.
  UpdateWatch(uint64_t every, uint64_t total_steps)
    : every_(every), total_(total_steps) {}

  /// To whom it tells; before that nothing is looked at.
  void tell(Tell tell);
  /// Whether it looks at step `step`, counted from 0.
  bool is_due(uint64_t step) const {
    return (step + 1) % every_ == 0 || step + 1 == total_;
  }
  /// Elements of a slice from `begin` on were updated so. It tells of the whole
  /// slice, once that is there; a step that is taken anew begins anew.
  void saw(const Slice& slice, uint64_t begin, uint64_t step,
           const UpdateArgs& args);
  /// Others have updated the rest: tells of what is here of slices.
  void end(uint64_t step);

private:
  /// What is known of a slice after a step, as runs that do not meet.
  struct Runs {
    uint64_t step = 0; ///< from 1
    std::map<uint64_t, Spreads> by_begin;
  };

  bool add(const Slice& slice, Spreads& part);

  const uint64_t every_;
  const uint64_t total_;
  std::mutex lock_;
  Tell tell_;
  std::map<uint32_t, Runs> open_; ///< by slice
};

} // namespace troupe
