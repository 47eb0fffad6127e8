#pragma once

#include "kernels/base/buffer.hpp"
#include "kernels/graph/stacked_leaves.hpp"

#include <cstddef>

namespace troupe::kernels {

/// Dense products a^T b of which each element's sum is one chain along the rows
/// of each leaf, summed along the tree, as NonzeroProduct sums it: either may
/// be taken for the other, and the bits are the same. Keeps its memory from
/// product to product.
class TreeProduct {
public:
  /// c [m, n] = the sum along the tree of what a^T b is for each leaf's rows.
  /// a [k, m], b [k, n], row-major without gaps; the leaves have at most
  /// max_depth rows together. On this thread alone.
  void multiply(StackedLeaves leaves, size_t m, size_t n, const float* a,
                const float* b, float* c);

  static constexpr size_t max_depth = 512;

private:
  struct Job;
  struct Band;
  void multiply_band(const Job& job, const Band& band, const Band& next);
  size_t copy_lines(const Job& job, const Band& band, size_t line,
                    size_t count);

  Buffer bands_[2]; ///< of b: the one at hand, and the next
  Buffer a_;        ///< turned
  Buffer stack_;    ///< tiles of leaves
};

} // namespace troupe::kernels
