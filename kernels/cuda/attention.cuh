#pragma once

#include "kernels/cuda/kernel.cuh"

namespace troupe::kernels::cuda {

/// One attention of all rows and heads. Shapes: x and its gradient [rows,
/// length, stride()]: queries, then keys, then values; y and its gradient
/// [rows, length, width()], kept and delta [rows, heads, length].
struct AttentionArgs {
  const void* x;
  const void* y;  ///< written by the forward pass
  const void* dy; ///< of the backward pass, as dx
  void* dx;
  float* kept;  ///< log of the sum of the exponentials of a query's scores
  float* delta; ///< sum of y dy of a query and head; scratch
  uint32_t rows;
  uint32_t length;
  uint32_t head; ///< elements of one
  uint32_t heads;
  uint32_t key_heads; ///< each is that of group() heads, one after the other
  float scale;
  bool causal;
  bool half_x; ///< x and dx are bfloat16
  bool half_y; ///< y and dy are
  bool accumulate;

  __host__ __device__ uint32_t width() const { return heads * head; }
  __host__ __device__ uint32_t group() const { return heads / key_heads; }
  __host__ __device__ uint32_t stride() const {
    return (heads + 2 * key_heads) * head;
  }
  /// Where the query (part 0), key (1) or value (2) of a head begins in a row
  /// of x.
  __host__ __device__ uint32_t first(uint32_t part, uint32_t h) const {
    const auto key = heads + h / group() + (part > 1 ? key_heads : 0);
    return (part == 0 ? h : key) * head;
  }
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
