#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::kernels {

/// A matrix of which only the nonzero elements are multiplied: what follows a
/// relu, images on black, one-hot columns. A zero meets nothing: what it would
/// make of an infinity is left out. Bits depend on shapes and values alone.
class NonzeroMatrix {
public:
  /// Takes a [rows, columns], without gaps, for products of n columns; false
  /// where the dense product is faster: more than two fifths are not zero, or
  /// the product is narrow.
  bool take(const float* a, size_t rows, size_t columns, size_t n);

  /// c [rows, n] = a b [columns, n]
  void multiply(const float* b, size_t n, float* c);

  /// c [columns, n] (+)= a^T b [rows, n]; sums run in the order of rows.
  void multiply_transposed(const float* b, size_t n, float* c, bool accumulate);

private:
  /// Nonzero elements, row by row.
  struct Elements {
    std::vector<float> values;
    std::vector<uint32_t> places; ///< columns
    std::vector<uint32_t> starts; ///< of each row, and the end
  };

  void turn();
  void run(const Elements& a, size_t rows, size_t columns, const float* b,
           size_t n, float* c, bool accumulate);

  size_t rows_ = 0;
  size_t columns_ = 0;
  Elements as_is_;
  Elements turned_;
  std::vector<uint32_t> cuts_;
  std::vector<float> packed_;
};

} // namespace troupe::kernels
