#pragma once

#include "actors/compute/leaf_computer.hpp"
#include "kernels/compression/compressor.hpp"

#include <memory>
#include <vector>

namespace troupe {

/// Compression of what workers push of dense slices (--compress). A packed
/// slice is a TensorView of the compressor's bytes, filled up to whole floats.
class PushPacking {
public:
  explicit PushPacking(const Job& job);

  /// Nothing is packed: pushes are the values.
  bool none() const { return compressor_ == nullptr; }
  /// Floats of a packed slice; the values of one that is not packed.
  size_t size(const Slice& slice) const;
  /// Packs the sums of `gradient`, so that all that is ever sent of a node is
  /// the same. What is left out goes with the sums that come next.
  void pack(StepGradient& gradient, Executor& executor);
  /// Returns the values of a packed slice; a view of none stays one.
  /// Errors: bytes that pack() cannot have written are a bug of a member:
  /// InputError.
  TensorView unpack(const Slice& slice, const TensorView& packed) const;

private:
  const Job& job_;
  std::unique_ptr<Compressor> compressor_;
  std::vector<float> residual_; ///< flat by Job::layout; of workers
};

} // namespace troupe
