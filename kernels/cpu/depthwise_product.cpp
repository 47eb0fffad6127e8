#include "kernels/cpu/depthwise_product.hpp"

namespace troupe::kernels {

namespace {

DepthwisePart whole_part(const Windows& windows, size_t channels) {
  DepthwisePart part = {};
  part.windows = windows.image;
  part.line_step = windows.line_step;
  part.window_step = windows.window_step;
  part.down_step = windows.down_step;
  part.channels = channels;
  part.runs = windows.runs;
  part.taps = windows.length / channels;
  part.high = windows.high;
  part.wide = windows.wide;
  return part;
}

} // namespace

void multiply_depthwise(const Windows& windows, size_t channels,
                        const float* weights, float* c, size_t c_stride,
                        size_t c_down_step) {
  auto part = whole_part(windows, channels);
  part.other = weights;
  part.c = c;
  part.c_stride = c_stride;
  part.c_down_step = c_down_step;
  depthwise_loops().multiply(part);
}

void multiply_depthwise_transposed(const Windows& windows, size_t channels,
                                   const float* b, float* c, bool accumulate) {
  auto part = whole_part(windows, channels);
  part.c = c;
  each_block(windows.high, windows.wide,
             [&](LineRange lines, size_t place, size_t places) {
               part.windows = windows.image + lines.first * windows.down_step
                              + place * windows.window_step;
               part.other = b + (lines.first * windows.wide + place) * channels;
               part.high = lines.count();
               part.wide = places;
               part.add = accumulate || lines.first > 0 || place > 0;
               depthwise_loops().multiply_transposed(part);
             });
}

} // namespace troupe::kernels

#define LEAF "kernels/cpu/depthwise_leaf.inc"
#define TABLE_TYPE DepthwiseLoops
#define TABLE_NAME depthwise_loops
#define TABLE_ENTRIES multiply, multiply_transposed
#include "kernels/cpu/per_isa.inc"
