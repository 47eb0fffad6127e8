#include "kernels/cuda/pinned_pages.cuh"

#include "kernels/cuda/status.cuh"

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
  const LeavingDevice current(static_cast<uint32_t>(device_));
  cudaHostUnregister(first_);
}

} // namespace troupe::kernels
