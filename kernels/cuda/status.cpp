#include "kernels/cuda/status.cuh"

#include <stdexcept>

namespace troupe::kernels {

void fail(const CudaPlace& place, const std::string& what) {
  throw std::runtime_error(place.device + ": " + place.op + ": " + what);
}

std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "."
         + std::to_string(number % 1000 / 10);
}

void* allocate_on_device(size_t bytes, const CudaPlace& place) {
  void* values = nullptr;
  const auto status = cudaMalloc(&values, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError(); // the device itself is well
    size_t free = 0;
    size_t total = 0;
    cudaMemGetInfo(&free, &total);
    constexpr size_t mebibyte = 1u << 20;
    fail(place, "out of memory: " + std::to_string(bytes / mebibyte)
                  + " MiB were asked for, " + std::to_string(free / mebibyte)
                  + " of the GPU's " + std::to_string(total / mebibyte)
                  + " MiB are free; use smaller micro-batches (more virtual "
                    "ranks) or a GPU with more memory");
  }
  check(status, place);
  return values;
}

} // namespace troupe::kernels
