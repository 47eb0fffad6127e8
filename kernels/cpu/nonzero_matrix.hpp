#pragma once

#include "kernels/cpu/nonzero_product.hpp"

#include <cstddef>

namespace troupe::kernels {

/// A matrix of which only the nonzero elements are multiplied: what follows a
/// relu, images on black, one-hot columns. A zero meets nothing: what it would
/// make of an infinity is left out. Bits depend on shapes and values alone.
class NonzeroMatrix {
public:
  /// Takes a [rows, columns], without gaps, for products of n columns; false
  /// where more than `most` of it, from 0 to 1, is not zero, or the product is
  /// narrow: the dense one is faster then.
  bool take(const float* a, size_t rows, size_t columns, size_t n, double most);

  /// c [rows, n] (+)= a b [columns, n]; b lies as [n, columns] if transposed.
  void multiply(Side side_b, const float* b, size_t n, float* c,
                bool accumulate);

  /// c [columns, n] (+)= a^T b [rows, n]; sums run in the order of rows.
  void multiply_transposed(const float* b, size_t n, float* c, bool accumulate);

private:
  void turn();
  void run(const NonzeroRows& a, size_t columns, Side side_b, const float* b,
           size_t n, float* c, bool accumulate);

  size_t rows_ = 0;
  size_t columns_ = 0;
  NonzeroRows as_is_;
  NonzeroRows turned_;
  NonzeroProduct product_;
};

} // namespace troupe::kernels
