#pragma once

#include "kernels/cpu/nonzero_product.hpp"
#include "kernels/cpu/tree_product.hpp"

#include <cstddef>

namespace troupe::kernels {

/// Up to which share of nonzero elements, from 0 to 1, a product is faster that
/// leaves zeros out.
struct BreakEven {
  double plain;        ///< a b
  double transposed_b; ///< a b^T
  double transposed_a; ///< a^T b
  double leaves;       ///< a^T b, of each leaf

  /// Of this machine under the instruction set selected: measured at the first
  /// call, in some 10 ms.
  static const BreakEven& measured();
};

/// Products of a matrix with many zeros: what follows a relu, images on black,
/// one-hot columns. A zero meets nothing where that is faster, or is multiplied
/// as all the others; the bits are the same for finite b, so that they depend
/// on shapes and values alone.
class NonzeroMatrix {
public:
  NonzeroMatrix() = default;
  /// With another BreakEven than the machine's, which is to outlive this.
  explicit NonzeroMatrix(const BreakEven& rates) : rates_(&rates) {}

  /// Takes a [rows, columns], without gaps, for products of n columns; false
  /// where more than `most` of it, from 0 to 1, is not zero, or the product is
  /// narrow.
  bool take(const float* a, size_t rows, size_t columns, size_t n, double most);

  /// Takes all rows of a whose leaves take() has taken one by one, and found so
  /// many nonzero elements in.
  void join(size_t rows, size_t columns, size_t found);
  /// Nonzero elements of what was taken.
  size_t found() const { return found_; }

  /// c [rows, n] (+)= a b [columns, n]; b lies as [n, columns] if transposed.
  /// a: as taken, here and below.
  void multiply(const float* a, Side side_b, const float* b, size_t n, float* c,
                bool accumulate);

  /// c [columns, n] (+)= a^T b [rows, n]; sums run in the order of rows.
  void multiply_transposed(const float* a, const float* b, size_t n, float* c,
                           bool accumulate);

  /// c [columns, n] = the sum along the tree of what a^T b is for each leaf's
  /// rows.
  void multiply_leaves(StackedLeaves leaves, const float* a, const float* b,
                       size_t n, float* c);

private:
  bool leaves_out(double BreakEven::*product) const;
  void compress(const float* a);
  void turn();
  void run(const NonzeroRows& a, size_t columns, Side side_b, const float* b,
           size_t n, float* c, bool accumulate);

  const BreakEven* rates_ = nullptr; ///< null: the machine's
  size_t rows_ = 0;
  size_t columns_ = 0;
  size_t found_ = 0;
  bool compressed_ = false;
  NonzeroRows as_is_;
  NonzeroRows turned_;
  NonzeroProduct product_;
  TreeProduct tree_;
};

} // namespace troupe::kernels
