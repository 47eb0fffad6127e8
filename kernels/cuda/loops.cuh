#pragma once

// For the .cu files of this folder only.

#include <cuda_runtime.h>

#include <cstdint>

namespace troupe::kernels::cuda {

/// What the softmax of a row leaves besides the gradient.
struct LossRow {
  double loss;  ///< nats; 0 without labels
  int32_t best; ///< first class that has the largest logit
};

// Shapes: matrices are [rows, columns] float32, row-major without gaps, on the
// device. Completion: stream order. Errors: the launch's status.
// No atomics: each result is added up in an order fixed by the shape.

/// y[r][c] += bias[c], then max(., 0) if `relu`; a NaN stays.
cudaError_t bias_forward(float* y, const float* bias, uint32_t rows,
                         uint32_t columns, bool relu, cudaStream_t stream);

/// bias_gradient[c] = sum over r of d[r][c]; where `y` is given, d is first
/// set to 0 wherever y[r][c] <= 0.
cudaError_t bias_backward(float* d, const float* y, float* bias_gradient,
                          uint32_t rows, uint32_t columns, cudaStream_t stream);

/// One loss and best class per row; `gradient`, where given with labels,
/// becomes softmax(logits) - onehot(label).
cudaError_t softmax_cross_entropy(const float* logits, const int32_t* labels,
                                  float* gradient, LossRow* results,
                                  uint32_t rows, uint32_t columns,
                                  cudaStream_t stream);

} // namespace troupe::kernels::cuda
