#pragma once

#include "kernels/base/require.hpp"

#include <cstdint>

namespace troupe::kernels {

/// How far the micro-batch is that a slot of a stage keeps:
///
///   empty --forward--> held --backward--------------------------> empty
///                       +---backward_inputs--> half --weights----> empty
///
/// Errors: a pass before its time is a bug of the caller and asserts.
class SlotCourse {
public:
  void forward() { go(Holds::nothing, Holds::forward); }
  void backward() { go(Holds::forward, Holds::nothing); }
  void backward_inputs() { go(Holds::forward, Holds::weights); }
  void backward_weights() { go(Holds::weights, Holds::nothing); }
  /// The micro-batch will not come back.
  void abandon() { holds_ = Holds::nothing; }

  bool is_empty() const { return holds_ == Holds::nothing; }
  /// It came back, for inputs alone.
  bool is_half() const { return holds_ == Holds::weights; }

private:
  enum class Holds : uint8_t { nothing, forward, weights };

  void go(Holds before, Holds after) {
    require(holds_ == before, "a pass of a micro-batch before its time");
    holds_ = after;
  }

  Holds holds_ = Holds::nothing;
};

} // namespace troupe::kernels
