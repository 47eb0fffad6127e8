#include "kernels/cuda/replica.hpp"
#include "kernels/error.hpp"

// Stands in for kernels/cuda/*.cu in a build without CUDA.
#ifndef TROUPE_HAVE_CUDA

namespace troupe {

uint32_t cuda_device_count() {
  return 0;
}

namespace kernels {

namespace {

[[noreturn]] void refuse(uint32_t index) {
  throw InputError("cuda:" + std::to_string(index)
                   + ": this build has no CUDA; use cpu:N, or configure with "
                     "a CUDA toolkit");
}

} // namespace

std::unique_ptr<Replica> make_cuda_replica(const Graph&, uint32_t index,
                                           uint32_t, Precision) {
  refuse(index);
}

std::unique_ptr<Device> make_cuda_device(uint32_t index, Precision) {
  refuse(index);
}

std::string cuda_versions() {
  return {};
}

} // namespace kernels

} // namespace troupe

#endif
