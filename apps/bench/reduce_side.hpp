#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// One side of a comparison of all-reduces. It is driven round by round, so
/// that sides take turns, and sleeps in between.
class ReduceSide {
public:
  struct Round {
    uint64_t bytes = 0; ///< of each member's float32 vector
    uint32_t iterations = 1;
  };
  /// An iteration lasts from when the last member begins until the last one
  /// has the sum in its own vector. What each then has was compared with the
  /// sum, outside the timing.
  struct Measured {
    double us = 0; ///< median over the iterations
    std::string algorithm;
  };

  static constexpr uint32_t max_iterations = 1'024;

  virtual ~ReduceSide() = default;

  virtual std::string name() const = 0;
  virtual std::string version() const = 0;
  /// Errors: InputError when a sum is wrong or a member is gone.
  virtual Measured run(const Round& round) = 0;
};

} // namespace troupe
