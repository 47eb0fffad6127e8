#include "kernels/cuda/operators.cuh"

#include "kernels/base/require.hpp"

namespace troupe::kernels {

namespace {

bool writes_half(OpKind kind) {
  return kind == OpKind::dense || kind == OpKind::layer_norm
         || kind == OpKind::rms_norm || kind == OpKind::attention
         || kind == OpKind::rotary || kind == OpKind::swiglu;
}

bool reads_half(OpKind kind) {
  return kind == OpKind::dense || kind == OpKind::attention
         || kind == OpKind::softmax_cross_entropy;
}

} // namespace

std::vector<uint8_t> half_values(const Graph& graph, Precision precision) {
  std::vector<uint8_t> half(graph.values.size(), 0);
  if (precision != Precision::bfloat16)
    return half;
  std::vector<uint32_t> readers(graph.values.size(), 0);
  std::vector<uint8_t> fits(graph.values.size(), 1);
  for (size_t i = graph.ops.size(); i-- > 0;) { // readers before the writer
    const auto& op = graph.ops[i];
    const auto& shape = graph.values[op.output].shape;
    half[op.output] = writes_half(op.kind) && readers[op.output] == 1
                      && fits[op.output] && !shape.empty()
                      && shape.back() % 8 == 0;
    const bool turns_or_gates = op.kind == OpKind::rotary
                                || op.kind == OpKind::swiglu;
    const bool takes_half = reads_half(op.kind)
                            || (turns_or_gates && half[op.output]);
    for (auto input : op.inputs) {
      ++readers[input];
      fits[input] = fits[input] && takes_half;
    }
  }
  return half;
}

OperatorPtr make_cuda_operator(const CudaOpSite& site) {
  switch (site.op().kind) {
    case OpKind::dense:
      return make_cuda_dense(site);
    case OpKind::conv2d:
      return make_cuda_convolution(site);
    case OpKind::max_pool:
    case OpKind::average_pool:
      return make_cuda_pool(site);
    case OpKind::batch_norm:
      return make_cuda_batch_norm(site);
    case OpKind::layer_norm:
    case OpKind::rms_norm:
      return make_cuda_layer_norm(site);
    case OpKind::activation:
    case OpKind::dropout:
    case OpKind::add:
    case OpKind::multiply:
    case OpKind::bias:
    case OpKind::swiglu:
      return make_cuda_elementwise(site);
    case OpKind::softmax:
      return make_cuda_softmax(site);
    case OpKind::embedding:
    case OpKind::embedding_bag:
      return make_cuda_embedding(site);
    case OpKind::attention:
      return make_cuda_attention(site);
    case OpKind::rotary:
      return make_cuda_rotary(site);
    case OpKind::interaction:
    case OpKind::factorization:
      return make_cuda_interaction(site);
    case OpKind::concat:
    case OpKind::slice:
    case OpKind::reshape:
    case OpKind::transpose:
      return make_cuda_movement(site);
    case OpKind::softmax_cross_entropy:
    case OpKind::sigmoid_cross_entropy:
    case OpKind::mean_squared_error:
      return make_cuda_loss(site);
  }
  require(false, "no such operator");
  return nullptr;
}

} // namespace troupe::kernels
