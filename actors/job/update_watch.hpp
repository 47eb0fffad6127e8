#pragma once

#include "actors/wire/messages/supervision.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "strategies/slicing.hpp"

#include <cstdint>
#include <functional>
#include <mutex>

namespace troupe {

/// Looks at updates of slices from time to time, and tells how values and
/// gradients are spread. One a process; any thread.
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
  /// Elements of a slice from `begin` on were updated so.
  void saw(const Slice& slice, uint64_t begin, uint64_t step,
           const UpdateArgs& args) const;

private:
  const uint64_t every_;
  const uint64_t total_;
  mutable std::mutex lock_;
  Tell tell_;
};

} // namespace troupe
