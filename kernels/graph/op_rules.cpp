#include "kernels/graph/op_rules.hpp"

#include "kernels/graph/op_shapes.hpp"

namespace troupe::kernels {

namespace {

constexpr size_t any_number = ~size_t{0};

const OpRule rules[] = {
  {OpKind::dense,
   "dense",
   1,
   1,
   {"units", "activation", "bias", "transposed", "weight", "initializer",
    "scale"},
   shapes::dense},
  {OpKind::conv2d,
   "conv2d",
   1,
   1,
   {"units", "kernel", "stride", "padding", "groups", "activation", "bias",
    "initializer", "scale"},
   shapes::conv2d},
  {OpKind::max_pool,
   "max_pool",
   1,
   1,
   {"kernel", "stride", "padding"},
   shapes::pool},
  {OpKind::average_pool,
   "average_pool",
   1,
   1,
   {"kernel", "stride", "padding"},
   shapes::pool},
  {OpKind::batch_norm,
   "batch_norm",
   1,
   1,
   {"activation", "epsilon", "momentum", "cross_replica"},
   shapes::batch_norm},
  {OpKind::layer_norm,
   "layer_norm",
   1,
   1,
   {"epsilon", "bias"},
   shapes::layer_norm},
  {OpKind::rms_norm, "rms_norm", 1, 1, {"epsilon"}, shapes::layer_norm},
  {OpKind::activation, "activation", 1, 1, {"activation"}, shapes::activation},
  {OpKind::softmax, "softmax", 1, 1, {}, shapes::softmax},
  {OpKind::dropout, "dropout", 1, 1, {"rate"}, shapes::dropout},
  {OpKind::embedding,
   "embedding",
   1,
   1,
   {"width", "vocabulary", "weight", "initializer", "scale"},
   shapes::embedding},
  {OpKind::embedding_bag,
   "embedding_bag",
   1,
   2,
   {"width", "vocabulary", "mode", "weight", "initializer", "scale"},
   shapes::embedding_bag},
  {OpKind::attention,
   "attention",
   1,
   1,
   {"heads", "key_value_heads", "causal"},
   shapes::attention},
  {OpKind::rotary,
   "rotary",
   1,
   1,
   {"heads", "key_value_heads", "base", "interleaved"},
   shapes::rotary},
  {OpKind::swiglu, "swiglu", 1, 1, {}, shapes::swiglu},
  {OpKind::interaction, "interaction", 1, 1, {}, shapes::interaction},
  {OpKind::factorization, "factorization", 1, 1, {}, shapes::factorization},
  {OpKind::concat, "concat", 2, any_number, {"axis"}, shapes::concat},
  {OpKind::slice, "slice", 1, 1, {"axis", "begin", "end"}, shapes::slice},
  {OpKind::reshape, "reshape", 1, 1, {"shape"}, shapes::reshape},
  {OpKind::transpose, "transpose", 1, 1, {"permutation"}, shapes::transpose},
  {OpKind::add, "add", 2, any_number, {"activation"}, shapes::same_shapes},
  {OpKind::multiply, "multiply", 2, 2, {}, shapes::same_shapes},
  {OpKind::bias, "bias", 1, 1, {"initializer", "scale"}, shapes::bias},
  {OpKind::softmax_cross_entropy,
   "softmax_cross_entropy",
   1,
   1,
   {},
   shapes::softmax_cross_entropy},
  {OpKind::sigmoid_cross_entropy,
   "sigmoid_cross_entropy",
   1,
   1,
   {},
   shapes::sigmoid_cross_entropy},
  {OpKind::mean_squared_error,
   "mean_squared_error",
   1,
   1,
   {},
   shapes::mean_squared_error},
};

} // namespace

std::span<const OpRule> op_rules() {
  return rules;
}

const OpRule* find_rule(std::string_view name) {
  for (const auto& rule : rules)
    if (rule.name == name)
      return &rule;
  return nullptr;
}

} // namespace troupe::kernels

namespace troupe {

std::string to_string(OpKind kind) {
  for (const auto& rule : kernels::op_rules())
    if (rule.kind == kind)
      return std::string{rule.name};
  return "?";
}

} // namespace troupe
