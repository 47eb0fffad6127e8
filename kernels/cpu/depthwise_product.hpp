#pragma once

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/window_product.hpp"

namespace troupe::kernels {

// Products of windows with weights where each channel meets its own alone:
// channels lie side by side in the vectors.

/// c [high, wide, channels] = windows weights, where weights lie [runs, taps,
/// channels] and windows' lines have taps * channels elements; steps as
/// multiply()'s of window_product.hpp. A sum is one chain along the window.
void multiply_depthwise(const Windows& windows, size_t channels,
                        const float* weights, float* c, size_t c_stride,
                        size_t c_down_step);

/// c [runs, taps, channels] = or += windows^T b with b [high, wide, channels]
/// without gaps. Chains have the blocks of multiply_transposed().
void multiply_depthwise_transposed(const Windows& windows, size_t channels,
                                   const float* b, float* c, bool accumulate);

/// Some windows and some of their channels.
struct DepthwisePart {
  const float* windows; ///< of the first window, and of the first channel
  size_t line_step, window_step, down_step, channels;
  size_t runs, taps;
  size_t high, wide;
  const float* other; ///< weights or b, [.., channels]
  float* c;
  size_t c_stride, c_down_step;
  bool add;
};

struct DepthwiseLoops {
  void (*multiply)(const DepthwisePart& part);
  void (*multiply_transposed)(const DepthwisePart& part);
};

const DepthwiseLoops& depthwise_loops(Isa isa);
const DepthwiseLoops& depthwise_loops();

} // namespace troupe::kernels
