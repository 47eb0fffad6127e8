#include "kernels/cpu/operators.hpp"

#include "kernels/base/require.hpp"

namespace troupe::kernels {

OperatorPtr make_cpu_operator(const CpuOpSite& site) {
  switch (site.op.kind) {
    case OpKind::dense:
      return make_dense(site);
    case OpKind::conv2d:
      return make_convolution(site);
    case OpKind::max_pool:
    case OpKind::average_pool:
      return make_pool(site);
    case OpKind::batch_norm:
      return make_batch_norm(site);
    case OpKind::layer_norm:
    case OpKind::rms_norm:
      return make_layer_norm(site);
    case OpKind::activation:
    case OpKind::dropout:
    case OpKind::add:
    case OpKind::multiply:
    case OpKind::bias:
    case OpKind::swiglu:
      return make_elementwise(site);
    case OpKind::softmax:
      return make_softmax(site);
    case OpKind::embedding:
    case OpKind::embedding_bag:
      return make_embedding(site);
    case OpKind::attention:
      return make_attention(site);
    case OpKind::rotary:
      return make_rotary(site);
    case OpKind::interaction:
    case OpKind::factorization:
      return make_interaction(site);
    case OpKind::concat:
    case OpKind::slice:
    case OpKind::reshape:
    case OpKind::transpose:
      return make_movement(site);
    case OpKind::softmax_cross_entropy:
    case OpKind::sigmoid_cross_entropy:
    case OpKind::mean_squared_error:
      return make_loss(site);
  }
  require(false, "no such operator");
  return nullptr;
}

} // namespace troupe::kernels
