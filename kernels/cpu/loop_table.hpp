#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// What the optimizers' loops read: constants worked out once per call, and
/// the runs of one slice. Which constants a rule takes is said in
/// optimizer.cpp.
struct UpdateTerms {
  const float* gradient_sum;
  const float* in;
  float* out;
  const float* state_in[2];
  float* state_out[2];
  size_t count;
  float samples;
  float inverse;      ///< 1 / samples where that is exact, else 0
  float weight_decay; ///< added to the gradient; 0: left out
  float keep;         ///< what decoupled decay leaves of a value
  float step_size;
  float decay[2];   ///< of the state: beta1, beta2; momentum in the first
  float fresh[2];   ///< 1 - decay
  float root_scale; ///< multiplies the square root (Adam)
  float epsilon;
};

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
  /// are taken in double, in column order.
  void (*softmax)(Rows z, float* p, SoftmaxRow* results);

  void (*sgd)(const UpdateTerms& terms);
  void (*momentum)(const UpdateTerms& terms);
  void (*nesterov)(const UpdateTerms& terms);
  void (*adam)(const UpdateTerms& terms);
  void (*adagrad)(const UpdateTerms& terms);
  void (*rmsprop)(const UpdateTerms& terms);
};

/// The table of an instruction set; without one, of the set that select_isa
/// chose, or before that of the highest the machine has.
const LoopTable& loops(Isa isa);
const LoopTable& loops();

} // namespace troupe::kernels
