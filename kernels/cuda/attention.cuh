#pragma once

#include "kernels/cuda/kernel.cuh"

namespace troupe::kernels::cuda {

/// One attention of all rows and heads. Shapes: x and its gradient [rows,
/// length, 3 width], y and its gradient [rows, length, width], kept and delta
/// [rows, heads, length].
struct AttentionArgs {
  const void* x;
  const void* y;  ///< written by the forward pass
  const void* dy; ///< of the backward pass, as dx
  void* dx;
  float* kept;  ///< log of the sum of the exponentials of a query's scores
  float* delta; ///< sum of y dy of a query and head; scratch
  uint32_t rows;
  uint32_t length;
  uint32_t width;
  uint32_t heads;
  float scale;
  bool causal;
  bool half_x; ///< x and dx are bfloat16
  bool half_y; ///< y and dy are
  bool accumulate;

  __host__ __device__ uint32_t head() const { return width / heads; }
};

/// Tells whether the tensor cores' kernels take it: bfloat16 on both sides and
/// heads of 32, 64 or 128.
bool fits_tensor_cores(const AttentionArgs& args);

// Completion: stream order; cudaGetLastError() has the launches' status.
void attention_forward(const AttentionArgs& args, cudaStream_t stream);
void attention_backward(const AttentionArgs& args, cudaStream_t stream);
void tensor_attention_forward(const AttentionArgs& args, cudaStream_t stream);
void tensor_attention_backward(const AttentionArgs& args, cudaStream_t stream);

} // namespace troupe::kernels::cuda
