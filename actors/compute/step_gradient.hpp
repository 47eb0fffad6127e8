#pragma once

#include "actors/links/link_memory.hpp"
#include "actors/wire/messages/reports.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class StepRows;

/// A flat gradient by Job::layout, aligned to 64 bytes; in shared memory where
/// there is some.
class SumBuffer {
public:
  SumBuffer(size_t count, LinkMemory* memory);
  float* data() { return values_.get(); }
  const float* data() const { return values_.get(); }
  size_t size() const { return count_; } ///< elements

private:
  std::shared_ptr<float> values_;
  size_t count_;
};

/// The gradient sum of one tree node, flat by Job::layout; null when none of
/// its virtual ranks has a sample in the step (the identity, PROTOCOL 2).
struct NodeSum {
  RankRange node;
  std::shared_ptr<const SumBuffer> sum;
  std::shared_ptr<const StepRows> rows = {}; ///< null without sparse tables
  /// By slice, what is sent instead of the sum; null: nothing is packed.
  std::shared_ptr<const std::vector<TensorView>> packed = {};

  /// A view of `count` elements at `offset`; empty for the identity.
  TensorView view(uint64_t offset, uint64_t count) const;
};

/// Called from the executor with each bucket, in order, when its run of the
/// nodes' sums is final; nothing else of them is.
using NodesReady =
  std::function<void(uint32_t bucket, const std::vector<NodeSum>& nodes)>;

/// How long samples took, in seconds.
struct DataTime {
  double wait = 0;   ///< until they were here
  double decode = 0; ///< the part of it in which they were decoded here

  DataTime& operator+=(const DataTime& other) {
    wait += other.wait;
    decode += other.decode;
    return *this;
  }
};

/// What a worker computed of one step.
struct StepGradient {
  uint64_t step = 0;
  std::vector<NodeSum> nodes;
  std::vector<LeafLoss> leaves;
  double seconds = 0; ///< without those that it waited at a gate
  /// Of the thread that waited longest; part of the others.
  DataTime data;
  double slowed_seconds = 0; ///< that it took longer on purpose (Slowed)
  bool abandoned = false;    ///< there is nothing of it
  /// A sum or a loss was not finite, and all of it was computed once more.
  bool computed_twice = false;
  std::string trouble; ///< nor was it then: the user's line
};

} // namespace troupe
