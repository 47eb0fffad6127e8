#pragma once

#include "kernels/base/buffer.hpp"
#include "kernels/cpu/matrix.hpp"
#include "kernels/graph/stacked_leaves.hpp"

#include <cstddef>

namespace troupe::kernels {

/// Dense products of which each element's sum is one chain along k, as
/// NonzeroMatrix sums it: either may be taken for the other, and the bits are
/// the same. Keeps its memory from product to product.
class ChainProduct {
public:
  /// c [m, n] (+)= a [m, k] b [k, n], row-major without gaps; a transposed
  /// operand lies as [k, m] or [n, k], not both. On this thread alone.
  void multiply(Side side_a, Side side_b, size_t m, size_t n, size_t k,
                const float* a, const float* b, float* c, bool accumulate);

  /// c [m, n] = the sum along the tree of what a^T b is for each leaf's rows.
  /// a [k, m], b [k, n]; the leaves have at most max_depth rows together.
  void multiply_leaves(StackedLeaves leaves, size_t m, size_t n, const float* a,
                       const float* b, float* c);

  static constexpr size_t max_depth = 512; ///< of a chain in one go

private:
  struct Job;
  struct Band;
  void run(Job job);
  void multiply_band(const Job& job, const Band& band, const Band& next);
  size_t copy_lines(const Job& job, const Band& band, size_t line,
                    size_t count);

  Buffer bands_[2]; ///< of b: the one at hand, and the next
  Buffer a_;        ///< what lies transposed, turned
  Buffer b_;
  Buffer c_;
  Buffer stack_; ///< tiles of leaves
};

} // namespace troupe::kernels
