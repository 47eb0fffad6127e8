#pragma once

#include "kernels/base/buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::kernels {

/// Sums of leaves of a stacked pass on their way up the tree: leaf after leaf
/// is pushed, and each time as many merged as StackedLeaf says.
class LeafStack {
public:
  /// The sum of all ends in `result`; the others lie in `spare`, which is kept
  /// from pass to pass.
  LeafStack(float* result, size_t count, std::vector<Buffer>& spare)
    : result_(result), count_(count), spare_(spare) {}

  /// Where the next leaf's sum is to be put.
  float* push();
  /// So often the right one of the last two is added to the left one.
  void merge(uint32_t times);

private:
  float* at(size_t level) const {
    return level == 0 ? result_ : spare_[level - 1].data();
  }

  float* result_;
  size_t count_;
  std::vector<Buffer>& spare_;
  size_t height_ = 0;
};

} // namespace troupe::kernels
