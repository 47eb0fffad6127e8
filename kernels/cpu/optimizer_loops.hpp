#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// What the optimizers' loops read: constants worked out once per call, and
/// the runs of one slice. Which constants a rule takes is said in
/// optimizer/terms.cpp.
struct UpdateTerms {
  const float* gradient_sum;
  const float* in;
  float* out;
  const float* state_in[2];
  float* state_out[2];
  size_t count;
  float samples;
  float inverse;        ///< 1 / samples where that is exact, else 0
  float gradient_scale; ///< of the mean gradient; 1: left out
  float weight_decay;   ///< added to the gradient; 0: left out
  float decoupled;      ///< weight decay of LAMB's direction; 0: left out
  float keep;           ///< what AdamW's decay leaves of a value
  float step_size;
  float decay[2];    ///< of the state: beta1, beta2; momentum in the first
  float fresh[2];    ///< 1 - decay
  float first_scale; ///< multiplies the first moment (LAMB)
  float root_scale;  ///< multiplies the square root (Adam, LAMB)
  float epsilon;     ///< FTRL: beta and learning rate times l2
  float threshold;   ///< FTRL: learning rate times l1
  bool lazy;         ///< where gradient_sum is 0 nothing changes
};

/// Elements whose squares make one sum; a power of two.
constexpr size_t square_block = 4096;

/// The optimizers' loops compiled for one instruction set. All tables give the
/// same bits: each loop rounds once per operation written, element by element;
/// sums of squares have 16 accumulators, whatever the number of lanes.
struct OptimizerLoops {
  using Update = void (*)(const UpdateTerms& terms);
  Update sgd;
  Update momentum;
  Update nesterov;
  Update adam;
  Update adagrad;
  Update rmsprop;
  Update ftrl;
  Update lamb;
  /// out += step_size (gradient_sum / samples - in): a running statistic.
  Update statistic;

  /// blocks[b]: sum of the squares of the values of block b, in double.
  void (*square_sums)(const float* values, size_t count, double* blocks);
  /// The same of the values and of LAMB's directions, of which nothing is
  /// written.
  void (*lamb_square_sums)(const UpdateTerms& terms, double* values,
                           double* directions);
};

/// The table of an instruction set; without one, of the set selected.
const OptimizerLoops& optimizer_loops(Isa isa);
const OptimizerLoops& optimizer_loops();

} // namespace troupe::kernels
