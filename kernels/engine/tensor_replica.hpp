#pragma once

#include "kernels/engine/replica.hpp"
#include "kernels/graph/tensor_part.hpp"

#include <memory>
#include <optional>
#include <span>

namespace troupe {

/// The working memory of a member of a group that shares the virtual slices of
/// a graph: takes one micro-batch at a time forward and backward, from sum to
/// sum. The members' gradients together are bit for bit those of
/// Replica::gradient() of the whole graph, if each sum is that of the tree.
/// Used by one thread at a time.
class TensorReplica {
public:
  virtual ~TensorReplica() = default;

  /// A micro-batch begins; one that is under way is let go. The batch's memory
  /// and the parameters stay until its end.
  /// Shapes: parameters flat by layout().
  virtual void begin(const float* parameters, const Batch& batch) = 0;
  /// Computes up to the next of part().sums, and returns where this member's
  /// partial sum lies: the sum of all is to stand there before the next call.
  /// Nothing: the micro-batch is done, and so is its gradient.
  /// Shapes: gradient, flat by layout(), is overwritten but for its gaps, by
  /// the calls of a micro-batch together; the sum sum_elements().
  virtual std::optional<std::span<float>> advance(float* gradient) = 0;
  /// Loss and hits of the micro-batch that is done; all members have the same.
  virtual LeafStats stats() const = 0;

  const TensorPart& part() const { return part_; }
  /// Of part().parameters.
  const Layout& layout() const { return layout_; }
  /// Elements of a sum of so many rows.
  uint64_t sum_elements(uint32_t sum, uint32_t rows) const {
    return part_.graph.values[part_.sums[sum].value].size() * rows;
  }
  /// Bytes of working memory; no parameters nor gradient.
  virtual uint64_t memory_bytes() const = 0;

protected:
  explicit TensorReplica(TensorPart part)
    : part_(std::move(part)), layout_(part_.graph, part_.parameters) {}

  TensorPart part_;
  Layout layout_;
};

/// Makes a member's part on a device.
/// Errors: InputError for a device that computes no parts ("cuda:0"), or cannot
/// compute an operator or the precision.
std::unique_ptr<TensorReplica>
make_tensor_replica(TensorPart part, DeviceId device, uint32_t max_rows,
                    Precision precision);

} // namespace troupe
