#include "kernels/optimizer.hpp"

#include "kernels/cpu/loop_table.hpp"
#include "kernels/error.hpp"
#include "kernels/require.hpp"

#include <cmath>

namespace troupe {

namespace {

struct Rule {
  OptimizerKind kind;
  const char* name;
  uint32_t slots;
  const char* states[2];
};

constexpr Rule rules[] = {
  {OptimizerKind::sgd, "sgd", 0, {}},
  {OptimizerKind::momentum, "momentum", 1, {"momentum"}},
  {OptimizerKind::nesterov, "nesterov", 1, {"momentum"}},
  {OptimizerKind::adam, "adam", 2, {"adam_m", "adam_v"}},
  {OptimizerKind::adamw, "adamw", 2, {"adam_m", "adam_v"}},
  {OptimizerKind::adagrad, "adagrad", 1, {"adagrad_sum"}},
  {OptimizerKind::rmsprop, "rmsprop", 1, {"rmsprop_v"}},
};

const Rule& rule_of(OptimizerKind kind) {
  for (const auto& rule : rules)
    if (rule.kind == kind)
      return rule;
  kernels::require(false, "no such optimizer");
  return rules[0];
}

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

} // namespace

OptimizerKind parse_optimizer(const std::string& name) {
  std::string known;
  for (const auto& rule : rules) {
    if (name == rule.name)
      return rule.kind;
    known += std::string(known.empty() ? "" : ", ") + rule.name;
  }
  if (name == "ftrl" || name == "lamb")
    throw UsageError("--optimizer " + name + ": not available yet; use one of "
                     + known);
  throw UsageError("--optimizer " + name + ": unknown optimizer; use one of "
                   + known);
}

std::string to_string(OptimizerKind kind) {
  return rule_of(kind).name;
}

uint32_t state_slots(OptimizerKind kind) {
  return rule_of(kind).slots;
}

std::string state_name(OptimizerKind kind, uint32_t slot) {
  kernels::require(slot < state_slots(kind), "no such state slot");
  return rule_of(kind).states[slot];
}

void update(const OptimizerOptions& options, const UpdateArgs& args) {
  if (args.count == 0)
    return;
  const auto& rule = rule_of(options.kind);
  kernels::require(args.gradient_sum && args.in && args.out,
                   "an update without its slices");
  kernels::require(rule.slots == 0 || (args.state_in && args.state_out),
                   "an update without its state");
  kernels::require(rule.slots < 2 || args.state_stride >= args.count,
                   "runs of state overlap");
  kernels::require(args.step >= 1, "steps count from 1");
  kernels::UpdateTerms terms{};
  terms.gradient_sum = args.gradient_sum;
  terms.in = args.in;
  terms.out = args.out;
  for (uint32_t slot = 0; slot < rule.slots; ++slot) {
    terms.state_in[slot] = args.state_in + slot * args.state_stride;
    terms.state_out[slot] = args.state_out + slot * args.state_stride;
  }
  terms.count = args.count;
  terms.samples = args.samples;
  terms.inverse = exact_inverse(args.samples);
  terms.weight_decay = options.weight_decay;
  terms.keep = 1;
  terms.step_size = args.learning_rate;
  terms.decay[0] = options.beta1;
  terms.decay[1] = options.beta2;
  terms.fresh[0] = static_cast<float>(1.0 - options.beta1);
  terms.fresh[1] = static_cast<float>(1.0 - options.beta2);
  terms.root_scale = 1;
  terms.epsilon = options.epsilon;
  const auto& loops = kernels::loops();
  switch (options.kind) {
    case OptimizerKind::sgd:
      return loops.sgd(terms);
    case OptimizerKind::momentum:
      terms.decay[0] = options.momentum;
      return loops.momentum(terms);
    case OptimizerKind::nesterov:
      terms.decay[0] = options.momentum;
      return loops.nesterov(terms);
    case OptimizerKind::adamw:
      terms.keep = static_cast<float>(
        1.0 - double{args.learning_rate} * options.weight_decay);
      terms.weight_decay = 0;
      [[fallthrough]];
    case OptimizerKind::adam: {
      auto correction1 = 1.0 - power(options.beta1, args.step);
      auto correction2 = 1.0 - power(options.beta2, args.step);
      terms.step_size =
        static_cast<float>(double{args.learning_rate} / correction1);
      terms.root_scale = static_cast<float>(1.0 / std::sqrt(correction2));
      return loops.adam(terms);
    }
    case OptimizerKind::adagrad:
      return loops.adagrad(terms);
    case OptimizerKind::rmsprop:
      return loops.rmsprop(terms);
  }
}

} // namespace troupe
