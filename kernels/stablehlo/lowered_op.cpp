#include "kernels/stablehlo/lowered_op.hpp"

#include <numeric>

namespace troupe::kernels::stablehlo {

namespace {

constexpr Lowering lowerings[] = {
  {OpKind::dense, dense_forward, dense_backward},
  {OpKind::conv2d, convolution_forward, convolution_backward},
  {OpKind::max_pool, max_pool_forward, max_pool_backward},
  {OpKind::average_pool, average_pool_forward, average_pool_backward},
  {OpKind::batch_norm, batch_norm_forward, batch_norm_backward},
  {OpKind::layer_norm, row_norm_forward, row_norm_backward},
  {OpKind::rms_norm, row_norm_forward, row_norm_backward},
  {OpKind::activation, activation_forward, activation_backward},
  {OpKind::softmax, softmax_forward, softmax_backward},
  {OpKind::dropout, dropout_forward, dropout_backward},
  {OpKind::embedding, embedding_forward, embedding_backward},
  {OpKind::embedding_bag, embedding_bag_forward, embedding_bag_backward},
  {OpKind::attention, attention_forward, attention_backward},
  {OpKind::rotary, rotary_forward, rotary_backward},
  {OpKind::swiglu, swiglu_forward, swiglu_backward},
  {OpKind::interaction, interaction_forward, interaction_backward},
  {OpKind::factorization, factorization_forward, factorization_backward},
  {OpKind::concat, concat_forward, concat_backward},
  {OpKind::slice, slice_forward, slice_backward},
  {OpKind::reshape, reshape_forward, reshape_backward},
  {OpKind::transpose, transpose_forward, transpose_backward},
  {OpKind::add, add_forward, add_backward},
  {OpKind::multiply, multiply_forward, multiply_backward},
  {OpKind::bias, bias_forward, bias_backward},
  {OpKind::softmax_cross_entropy, softmax_loss_forward, softmax_loss_backward},
  {OpKind::sigmoid_cross_entropy, sigmoid_loss_forward, sigmoid_loss_backward},
  {OpKind::mean_squared_error, squared_loss_forward, squared_loss_backward},
};

} // namespace

const Lowering* find_lowering(OpKind kind) {
  for (const auto& lowering : lowerings)
    if (lowering.kind == kind)
      return &lowering;
  return nullptr;
}

Shape LoweredOp::shape() const {
  Shape out{rows};
  const auto& of_sample = graph.values[op.output].shape;
  out.insert(out.end(), of_sample.begin(), of_sample.end());
  return out;
}

std::vector<uint32_t> first_extents(uint32_t count) {
  std::vector<uint32_t> out(count);
  std::iota(out.begin(), out.end(), 0u);
  return out;
}

} // namespace troupe::kernels::stablehlo
