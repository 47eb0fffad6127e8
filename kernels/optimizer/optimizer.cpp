#include "kernels/optimizer/optimizer.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"
#include "kernels/optimizer/terms.hpp"

#include <cstring>

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
  {OptimizerKind::ftrl, "ftrl", 2, {"ftrl_z", "ftrl_root_n"}},
  {OptimizerKind::lamb, "lamb", 2, {"lamb_m", "lamb_v"}},
};

const Rule& rule_of(OptimizerKind kind) {
  for (const auto& rule : rules)
    if (rule.kind == kind)
      return rule;
  kernels::require(false, "no such optimizer");
  return rules[0];
}

void update_statistic(const OptimizerOptions& options, UpdateArgs args) {
  const auto slots = args.state_out ? state_slots(options.kind) : 0;
  for (uint32_t slot = 0; slot < slots; ++slot) {
    const auto at = slot * args.state_stride;
    if (args.state_out != args.state_in)
      std::memcpy(args.state_out + at, args.state_in + at,
                  args.count * sizeof(float));
  }
  args.learning_rate = args.statistic_momentum;
  OptimizerOptions plain;
  plain.kind = OptimizerKind::sgd;
  kernels::optimizer_loops().statistic(kernels::update_terms(plain, args));
}

} // namespace

OptimizerKind parse_optimizer(const std::string& name) {
  std::string known;
  for (const auto& rule : rules) {
    if (name == rule.name)
      return rule.kind;
    known += std::string(known.empty() ? "" : ", ") + rule.name;
  }
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

void set_parameter(UpdateArgs& args, const Parameter& parameter) {
  args.decays = parameter.decays;
  args.role = parameter.role;
  args.statistic_momentum = parameter.momentum;
}

void update(const OptimizerOptions& options, const UpdateArgs& args) {
  if (args.count == 0)
    return;
  kernels::require(args.out && (args.state_out || !args.state_in),
                   "an update has nowhere to go");
  if (args.role == ParameterRole::statistic)
    return update_statistic(options, args);
  kernels::update_loop(options.kind)(kernels::update_terms(options, args));
}

} // namespace troupe
