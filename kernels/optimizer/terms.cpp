#include "kernels/optimizer/terms.hpp"

#include "kernels/base/require.hpp"

#include <cmath>

namespace troupe::kernels {

namespace {

/// base^exponent by squaring: the C library's pow has other bits on machines
/// without FMA.
double power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1)
      result *= base;
    base *= base;
  }
  return result;
}

/// 1 / x for a power of two, whose product has the quotient's bits and takes a
/// third of the time; 0 for all others.
float exact_inverse(float x) {
  int exponent = 0;
  auto exact = std::frexp(x, &exponent) == 0.5f && exponent > -120
               && exponent < 120;
  return exact ? 1 / x : 0;
}

void check(const UpdateArgs& args, uint32_t slots) {
  require(args.gradient_sum && args.in, "an update without its slices");
  require(slots == 0 || args.state_in, "an update without its state");
  require(slots < 2 || args.state_stride >= args.count,
          "runs of state overlap");
  require(args.step >= 1, "steps count from 1");
}

void set_adam(UpdateTerms& terms, const OptimizerOptions& options,
              const UpdateArgs& args, float weight_decay) {
  const double rate = args.learning_rate;
  auto correction1 = 1.0 - power(options.beta1, args.step);
  auto correction2 = 1.0 - power(options.beta2, args.step);
  terms.root_scale = static_cast<float>(1.0 / std::sqrt(correction2));
  if (options.kind == OptimizerKind::lamb) {
    terms.step_size = static_cast<float>(rate * args.trust_ratio);
    terms.first_scale = static_cast<float>(1.0 / correction1);
    terms.decoupled = weight_decay;
    terms.weight_decay = 0;
    return;
  }
  terms.step_size = static_cast<float>(rate / correction1);
  if (options.kind == OptimizerKind::adamw) {
    terms.keep = static_cast<float>(1.0 - rate * weight_decay);
    terms.weight_decay = 0;
  }
}

} // namespace

UpdateTerms update_terms(const OptimizerOptions& options,
                         const UpdateArgs& args) {
  const auto slots = state_slots(options.kind);
  check(args, slots);
  UpdateTerms terms{};
  terms.gradient_sum = args.gradient_sum;
  terms.in = args.in;
  terms.out = args.out;
  for (uint32_t slot = 0; slot < slots; ++slot) {
    terms.state_in[slot] = args.state_in + slot * args.state_stride;
    if (args.state_out)
      terms.state_out[slot] = args.state_out + slot * args.state_stride;
  }
  terms.count = args.count;
  terms.samples = args.samples;
  terms.inverse = exact_inverse(args.samples);
  terms.gradient_scale = args.gradient_scale;
  const auto weight_decay = args.decays ? options.weight_decay : 0.0f;
  terms.weight_decay = weight_decay;
  terms.keep = 1;
  terms.lazy = args.lazy;
  terms.step_size = args.learning_rate;
  terms.decay[0] = static_cast<float>(options.beta1);
  terms.decay[1] = static_cast<float>(options.beta2);
  terms.fresh[0] = static_cast<float>(1.0 - options.beta1);
  terms.fresh[1] = static_cast<float>(1.0 - options.beta2);
  terms.root_scale = 1;
  terms.epsilon = options.epsilon;
  switch (options.kind) {
    case OptimizerKind::momentum:
    case OptimizerKind::nesterov:
      terms.decay[0] = options.momentum;
      break;
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
    case OptimizerKind::lamb:
      set_adam(terms, options, args, weight_decay);
      break;
    case OptimizerKind::ftrl:
      terms.epsilon = static_cast<float>(
        double{options.ftrl_beta} + double{args.learning_rate} * options.l2);
      terms.threshold = args.learning_rate * options.l1;
      break;
    case OptimizerKind::sgd:
    case OptimizerKind::adagrad:
    case OptimizerKind::rmsprop:
      break;
  }
  return terms;
}

OptimizerLoops::Update update_loop(OptimizerKind kind) {
  const auto& loops = optimizer_loops();
  switch (kind) {
    case OptimizerKind::sgd:
      return loops.sgd;
    case OptimizerKind::momentum:
      return loops.momentum;
    case OptimizerKind::nesterov:
      return loops.nesterov;
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      return loops.adam;
    case OptimizerKind::adagrad:
      return loops.adagrad;
    case OptimizerKind::rmsprop:
      return loops.rmsprop;
    case OptimizerKind::ftrl:
      return loops.ftrl;
    case OptimizerKind::lamb:
      return loops.lamb;
  }
  require(false, "no such optimizer");
  return loops.sgd;
}

} // namespace troupe::kernels
