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

/// y = (x - mean) inverse scale (+ shift), row by row, rows without gaps;
/// inverse = 1 / sqrt(variance + epsilon).
/// Source: Ba, Kiros, Hinton, "Layer Normalization", 2016; rms norm: Zhang and
/// Sennrich, "Root Mean Square Layer Normalization", 2019.
struct NormArgs {
  const float* x;     ///< [rows, columns]
  const float* scale; ///< [columns]
  const float* shift; ///< [columns]; null: none
  float* y;           ///< [rows, columns]
  Moments* moments;   ///< [rows]
  size_t rows;
  size_t columns;
  float epsilon; ///< added to the variance (mean square of an rms norm)
  bool centred;  ///< false: an rms norm
};

/// Gradients of the above. With h = (x - mean) inverse and g = d scale, of a
/// row: x_gradient (+)= inverse (g - mean of g - h mean of g h), without the
/// mean of g for an rms norm; over rows, in their order: scale_gradient = sum
/// of d h, shift_gradient = sum of d.
struct NormBackArgs {
  const float* x;         ///< [rows, columns]
  const float* scale;     ///< [columns]
  const float* d;         ///< [rows, columns], gradient of y
  const Moments* moments; ///< [rows]
  float* x_gradient;      ///< [rows, columns]; null: nobody asks
  bool accumulate;        ///< to x_gradient; the others are overwritten
  float* scale_gradient;  ///< [columns]
  float* shift_gradient;  ///< [columns]; null: none
  size_t rows;
  size_t columns;
  bool centred;
};

/// x_gradient (+)= y (d - sum of y d) of rows of a softmax.
struct SoftmaxBackArgs {
  const float* y;    ///< [rows, columns]
  const float* d;    ///< [rows, columns], gradient of y
  float* x_gradient; ///< [rows, columns]; may be d, unless it accumulates
  size_t rows;
  size_t columns;
  bool accumulate;
};

/// gradient (+)= (p - 1 at the row's label) share.
struct CrossEntropyBackArgs {
  const float* p;        ///< [rows, columns], probabilities
  const int32_t* labels; ///< [rows], each below columns
  float* gradient;       ///< [rows, columns], of what p is the softmax of
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
