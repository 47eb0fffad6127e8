#include "kernels/cuda/pinned_pages.cuh"

#include <cuda_runtime.h>

#include <cstdint>

namespace troupe::kernels {

std::unique_ptr<PinnedPages> PinnedPages::around(void* memory, size_t bytes) {
  constexpr uintptr_t page = 4096;
  const auto at = reinterpret_cast<uintptr_t>(memory);
  const auto first = at / page * page;
  const auto end = (at + bytes + page - 1) / page * page;
  auto* begin = static_cast<char*>(memory) - (at - first);
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess
      || cudaHostRegister(begin, end - first, cudaHostRegisterPortable)
           != cudaSuccess) {
    cudaGetLastError(); // nobody's failure
    return nullptr;
  }
  return std::unique_ptr<PinnedPages>(new PinnedPages(begin, device));
}

PinnedPages::~PinnedPages() {
  int kept = 0;
  const bool knows = cudaGetDevice(&kept) == cudaSuccess;
  cudaSetDevice(device_); // else another GPU would be opened for it
  cudaHostUnregister(first_);
  if (knows)
    cudaSetDevice(kept);
  cudaGetLastError(); // of a device that failed, which was said by then
}

} // namespace troupe::kernels
