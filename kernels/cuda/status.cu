#include "kernels/cuda/blas.cuh"
#include "kernels/cuda/status.cuh"

#include <stdexcept>

namespace troupe::kernels {

namespace {

[[noreturn]] void fail(const CudaPlace& place, const char* what) {
  throw std::runtime_error("cuda:" + std::to_string(place.device) + ": "
                           + place.op + ": " + what);
}

} // namespace

void check(cudaError_t status, const CudaPlace& place) {
  if (status != cudaSuccess)
    fail(place, cudaGetErrorString(status));
}

void check(cublasStatus_t status, const CudaPlace& place) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(place, blas().status_text(status));
}

} // namespace troupe::kernels
