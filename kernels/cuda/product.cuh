#pragma once

#include "kernels/cuda/matmul.cuh"

namespace troupe::kernels::cuda {

/// A product without epilogue, for shapes that cuBLASLt has no algorithm for.
/// Completion: stream order; cudaGetLastError() has the launch's status.
void plain_product(const MatmulShape& shape, const void* a, const void* b,
                   void* c, cudaStream_t stream);

} // namespace troupe::kernels::cuda
