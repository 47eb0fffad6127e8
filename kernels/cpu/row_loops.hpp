#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// Mean and reciprocal standard deviation of a row; of an rms norm the mean
/// is 0.
struct Moments {
  float mean;
  float inverse;
};

/// y = (x - mean) inverse scale (+ shift), row by row, rows without gaps.
/// Source: Ba, Kiros, Hinton, "Layer Normalization", 2016; rms norm: Zhang and
/// Sennrich, "Root Mean Square Layer Normalization", 2019.
struct NormArgs {
  const float* x;
  const float* scale; ///< [columns]
  const float* shift; ///< [columns]; null: none
  float* y;
  Moments* moments; ///< [rows]
  size_t rows;
  size_t columns;
  float epsilon; ///< added to the variance (mean square of an rms norm)
  bool centred;  ///< false: an rms norm
};

/// Gradients of the above. Sums over rows run in row order.
struct NormBackArgs {
  const float* x;
  const float* scale;
  const float* d; ///< gradient of y
  const Moments* moments;
  float* x_gradient; ///< null: nobody asks
  bool accumulate;   ///< to x_gradient; the others are overwritten
  float* scale_gradient;
  float* shift_gradient; ///< null: none
  size_t rows;
  size_t columns;
  bool centred;
};

/// x_gradient (+)= y (d - sum of y d) of rows of a softmax.
struct SoftmaxBackArgs {
  const float* y;
  const float* d;
  float* x_gradient; ///< may be d
  size_t rows;
  size_t columns;
  bool accumulate;
};

/// gradient (+)= (p - 1 at the row's label) share.
struct CrossEntropyBackArgs {
  const float* p;
  const int32_t* labels; ///< [rows]
  float* gradient;
  size_t rows;
  size_t columns;
  float share;
  bool accumulate;
};

/// Own loops along rows. A sum along a row is 16 sums, of the columns of equal
/// remainder, added pairwise: the same on every instruction set.
struct RowLoops {
  void (*norm)(const NormArgs& args);
  void (*norm_back)(const NormBackArgs& args);
  void (*softmax_back)(const SoftmaxBackArgs& args);
  void (*cross_entropy_back)(const CrossEntropyBackArgs& args);
};

const RowLoops& row_loops(Isa isa);
const RowLoops& row_loops();

} // namespace troupe::kernels
