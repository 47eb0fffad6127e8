#include "kernels/cuda/operators.cuh"
#include "kernels/error.hpp"

namespace troupe::kernels {

namespace {

OperatorPtr refuse(const CudaOpSite& site) {
  throw InputError("operator " + site.op().name + " is not available on "
                   + site.context.name() + " yet; use cpu:N");
}

} // namespace

#define REFUSE(name) \
  OperatorPtr name(const CudaOpSite& site) { \
    return refuse(site); \
  }
REFUSE(make_cuda_convolution)
REFUSE(make_cuda_pool)
REFUSE(make_cuda_batch_norm)
REFUSE(make_cuda_layer_norm)
REFUSE(make_cuda_movement)
REFUSE(make_cuda_embedding)
REFUSE(make_cuda_attention)
REFUSE(make_cuda_interaction)

} // namespace troupe::kernels
