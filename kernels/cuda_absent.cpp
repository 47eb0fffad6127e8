#include "kernels/cuda/replica.hpp"
#include "kernels/error.hpp"

// Stands in for kernels/cuda/*.cu in a build without CUDA.
#ifndef TROUPE_HAVE_CUDA

namespace troupe {

uint32_t cuda_device_count() {
  return 0;
}

namespace kernels {

std::unique_ptr<Replica> make_cuda_replica(const Graph&, uint32_t index,
                                           uint32_t, Precision) {
  throw InputError("cuda:" + std::to_string(index)
                   + ": this build has no CUDA; use cpu:N, or configure with "
                     "a CUDA toolkit");
}

std::string cuda_versions() {
  return {};
}

} // namespace kernels

} // namespace troupe

#endif
