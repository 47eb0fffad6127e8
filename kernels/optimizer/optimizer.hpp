#pragma once

#include "kernels/graph/graph.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe {

enum class OptimizerKind : uint8_t {
  sgd,
  momentum,
  nesterov,
  adam,
  adamw,
  adagrad,
  rmsprop,
  ftrl,
  lamb,
};

/// Which rule, and its constants: update() says which of them a rule reads.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adam;
  float momentum = 0.9f;
  double beta1 = 0.9; ///< in double, for 1 - beta
  double beta2 = 0.999;
  float epsilon = 1e-8f;
  /// adamw, lamb: decoupled; others: added to the gradient.
  float weight_decay = 0.0f;
  float ftrl_beta = 1.0f;
  float l1 = 0.0f; ///< ftrl
  float l2 = 0.0f; ///< ftrl
};

/// Errors: UsageError for an unknown name (lists the known ones).
OptimizerKind parse_optimizer(const std::string& name);
std::string to_string(OptimizerKind kind);

/// Number of float32 state values per parameter element (adam: 2).
uint32_t state_slots(OptimizerKind kind);
/// Name of a state slot as checkpoints use it, e.g. "adam_m".
std::string state_name(OptimizerKind kind, uint32_t slot);

/// One slice's update, fused into one pass: g = gradient_sum / samples *
/// gradient_scale, then the rule. Reads `in`, writes `out`; each pointer pair
/// may be the same or disjoint. `state_in/out` hold state_slots() runs of
/// `count` elements, each run `state_stride` elements after the one before.
struct UpdateArgs {
  const float* gradient_sum = nullptr;
  float samples = 1;
  uint64_t step = 1; ///< from 1, for bias correction
  float learning_rate = 1e-3f;
  const float* in = nullptr;
  float* out = nullptr;
  const float* state_in = nullptr;
  float* state_out = nullptr;
  size_t state_stride = 0;
  size_t count = 0;

  float gradient_scale = 1; ///< clip_scale() of the step; 1 changes no bit
  float trust_ratio = 1;    ///< lamb: trust_ratio() of the variable
  // Of the parameter that the slice is of: set_parameter().
  bool decays = true; ///< weight decay holds for it
  ParameterRole role = ParameterRole::trained;
  float statistic_momentum = 0;
  /// Elements whose gradient_sum is 0 keep value and state: see update().
  bool lazy = false;
};

/// Fills in what an update wants to know of a parameter.
void set_parameter(UpdateArgs& args, const Parameter& parameter);

/// Source: PyTorch 2 (torch.optim, the documented algorithms); per element,
/// with lr = learning_rate and, but for adamw and lamb, g += weight_decay * p
/// first:
///   sgd       p -= lr * g
///   momentum  m = momentum * m + g; p -= lr * m
///   nesterov  m likewise; p -= lr * (g + momentum * m)
///   adam      m = beta1 * m + (1 - beta1) * g
///             v = beta2 * v + (1 - beta2) * g²
///             p -= lr / (1 - beta1^step)
///                  * m / (sqrt(v) / sqrt(1 - beta2^step) + epsilon)
///   adamw     p *= 1 - lr * weight_decay, then as adam
///   adagrad   v += g²; p -= lr * g / (sqrt(v) + epsilon)
///   rmsprop   v = beta2 * v + (1 - beta2) * g²
///             p -= lr * g / (sqrt(v) + epsilon)
///             beta2 is PyTorch's alpha, whose default is 0.99
///   ftrl      s = sqrt(r² + g²) - r; r += s; z += lr * g - s * p
///             p = 0 where |z| <= lr * l1, else
///             p = (sign(z) * lr * l1 - z) / (ftrl_beta + r + lr * l2)
///   lamb      m, v as adam; u = m / (1 - beta1^step)
///                  / (sqrt(v) / sqrt(1 - beta2^step) + epsilon)
///                  + weight_decay * p
///             p -= lr * trust_ratio * u
///
/// ftrl: McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD
/// 2013, algorithm 1, with r = sqrt(n), which saves a square root, and z times
/// the learning rate: the same weights for a constant rate, while a schedule
/// does not shrink them all with it. An element whose gradients have all been 0
/// keeps its initial value.
///
/// lamb: You et al., "Large Batch Optimization for Deep Learning: Training BERT
/// in 76 Minutes", ICLR 2020, algorithm 2, phi the identity.
///
/// Papers of the others: momentum, nesterov: Sutskever et al., ICML 2013;
/// adagrad: Duchi, Hazan, Singer, JMLR 2011; rmsprop: Tieleman and Hinton,
/// 2012; adam: Kingma and Ba, ICLR 2015, algorithm 1; adamw: Loshchilov and
/// Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.
///
/// lazy: an element whose gradient_sum is exactly 0 is left as it is, value and
/// state: no decay, no momentum, no moments that fade; the step is counted all
/// the same. Of a table of embeddings those are the rows that no sample of the
/// step has. It is asked of each element, not of a row, so it does not matter
/// where slices are cut. Source: torch.optim.SparseAdam ("only moments that
/// show up in the gradient get updated").
///
/// Statistics, whatever the rule: p += statistic_momentum * (gradient_sum /
/// samples - p); state is passed on.
///
/// State starts at zero. Dampening, amsgrad, centred: left out.
///
/// Bits: same for any offset, length and instruction set; bias corrections
/// are computed in double once per call.
void update(const OptimizerOptions& options, const UpdateArgs& args);

} // namespace troupe
