#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace troupe::kernels::cuda {

/// A convolution as the graph has it: images [rows, height, width, channels],
/// weights [kernel, kernel, channels / groups, units].
struct DirectConvolution {
  uint32_t rows;
  uint32_t height, width, channels;
  uint32_t high, wide, units; ///< of the output
  uint32_t kernel, stride, padding, groups;
};

// Plain kernels for what cuDNN has no engine for. Each result is added up by
// one thread or block, in an order fixed by the shape.
// Completion: stream order; cudaGetLastError() has the launch's status.

/// y = x * w
void direct_forward(const DirectConvolution& shape, const float* x,
                    const float* w, float* y, cudaStream_t stream);
/// The gradient of x.
void direct_input_gradient(const DirectConvolution& shape, const float* dy,
                           const float* w, float* dx, cudaStream_t stream);
/// dw (+)= the gradient of w.
void direct_weight_gradient(const DirectConvolution& shape, const float* x,
                            const float* dy, float* dw, bool accumulate,
                            cudaStream_t stream);

// float32 convolutions as products of windows and weights, or of windows and
// gradients, in tiles. No groups.
// Completion: stream order; cudaGetLastError() has the launch's status.

/// Tells whether forward() is for it: few channels and units. cuDNN's engines
/// without TF32 turn images and results of these round first.
bool has_forward(const DirectConvolution& shape);
/// y = x * w + bias, which may be null, or relu of it.
void forward(const DirectConvolution& shape, const float* x, const float* w,
             const float* bias, bool relu, float* y, cudaStream_t stream);
/// As has_forward, and stride 1.
bool has_input_gradient(const DirectConvolution& shape);
/// The gradient of x. scratch: as many elements as w has.
void input_gradient(const DirectConvolution& shape, const float* dy,
                    const float* w, float* dx, float* scratch,
                    cudaStream_t stream);
/// Elements of scratch that weight_gradient() takes for so many rows or fewer.
uint64_t weight_gradient_scratch(const DirectConvolution& shape);
/// dw (+)= the gradient of w, of a convolution without groups: a product of the
/// windows' elements and dy, whose places are dealt to blocks in chunks that
/// the shape fixes. cuDNN's engines for channels-last float32 without TF32
/// took, on an H100, 3.8 ms of 256 images of 14 x 14, 16 channels to 32 units,
/// 5 x 5: 1.3 GFLOP.
void weight_gradient(const DirectConvolution& shape, const float* x,
                     const float* dy, float* dw, bool accumulate,
                     float* scratch, cudaStream_t stream);

/// The graph's weights [kernel kernel channels / groups, units] in cuDNN's
/// order, units first; half: in bfloat16.
void weights_to_dnn(const float* w, void* to, uint64_t inner, uint32_t units,
                    bool half, cudaStream_t stream);
/// w (+)= weights in cuDNN's order.
void weights_from_dnn(const void* from, float* w, uint64_t inner,
                      uint32_t units, bool half, bool accumulate,
                      cudaStream_t stream);
/// out = float32(in)
void widen(const void* in, float* out, uint64_t count, cudaStream_t stream);

} // namespace troupe::kernels::cuda
