#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// A matrix of activations or their gradients, row-major, rows `stride`
/// elements apart.
struct Rows {
  float* values;
  size_t stride;
  size_t rows;
  size_t columns;
};

/// What the softmax of a row leaves besides the probabilities.
struct SoftmaxRow {
  double sum;    ///< of exp(logit - largest)
  float largest; ///< logit
  uint32_t best; ///< first column that has it
};

/// The own loops compiled for one instruction set. All tables give the same
/// bits: each loop rounds once per operation written, element by element, and
/// sums over rows run in row order.
struct LoopTable {
  void (*add)(const float* a, const float* b, float* out, size_t count);
  bool (*all_finite)(const float* values, size_t count);

  /// y[r][c] += bias[c], then max(., 0) if `relu`; a NaN stays.
  void (*bias_forward)(Rows y, const float* bias, bool relu);
  /// bias_gradient[c] = sum over r of d[r][c]; where `y` is given, d is first
  /// set to 0 wherever y[r][c] <= 0 (y has d's shape and stride).
  void (*bias_backward)(Rows d, const float* y, float* bias_gradient);
  /// out[i] = exp(in[i] - shift) for arguments up to 0, within 2 units in the
  /// last place; below -87.3 the result stays at exp(-87.3).
  void (*exp_shifted)(const float* in, float shift, float* out, size_t count);
  /// p[r] = softmax(z[r]); p has z's shape and stride. Sums of exponentials
  /// are 16 sums in double, by column modulo 16, added pairwise. p may be z.
  void (*softmax)(Rows z, float* p, SoftmaxRow* results);
};

/// The table of an instruction set; without one, of the set that select_isa
/// chose, or before that of the highest the machine has.
const LoopTable& loops(Isa isa);
const LoopTable& loops();

} // namespace troupe::kernels
