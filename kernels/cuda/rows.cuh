#pragma once

#include "kernels/cuda/kernel.cuh"

namespace troupe::kernels::cuda {

/// Threads that share a row: a warp of short rows, a block of long ones. Fixed
/// by the columns, so that bits repeat.
inline uint32_t row_threads(uint64_t columns) {
  return columns <= 1024 ? warp : 256;
}

/// The sum over the threads of a row (blockDim.x of them), in each.
template <class T>
__device__ inline T row_sum(T x) {
  return blockDim.x == warp ? warp_sum(x) : block_sum(x);
}

/// A launch with one row per blockDim.x threads: several rows a block where a
/// row has one warp. Rows are row_of() < rows.
inline dim3 row_block(uint64_t columns) {
  const auto threads = row_threads(columns);
  return threads == warp ? dim3(warp, 4) : dim3(threads, 1);
}
inline uint32_t row_grid(uint64_t rows, uint64_t columns) {
  return static_cast<uint32_t>(over(rows, row_block(columns).y));
}
__device__ inline uint64_t row_of() {
  return uint64_t{blockIdx.x} * blockDim.y + threadIdx.y;
}

} // namespace troupe::kernels::cuda
