#pragma once

#include "kernels/base/seconds_since.hpp"

#include <cstdint>
#include <optional>

namespace troupe {

/// While it lives, this thread decodes a sample that was left in its file, or,
/// with 1 in place of 16, a piece of many. One of so many is measured, and
/// stands for all of them: two looks at a clock are a part of what a small
/// sample takes.
class DecodeTimer {
public:
  explicit DecodeTimer(uint32_t of = 16) : of_(of) {
    if (of == 1 || begun()++ % of == 0)
      begin_ = SteadyClock::now();
  }
  ~DecodeTimer() {
    if (begin_)
      seconds() += of_ * seconds_since(*begin_);
  }
  DecodeTimer(const DecodeTimer&) = delete;
  DecodeTimer& operator=(const DecodeTimer&) = delete;

  /// What this thread has spent on that so far.
  static double& seconds() {
    thread_local double sum = 0;
    return sum;
  }

private:
  static uint32_t& begun() {
    thread_local uint32_t count = 0;
    return count;
  }

  uint32_t of_;
  std::optional<SteadyClock::time_point> begin_;
};

} // namespace troupe
