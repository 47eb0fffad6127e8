#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// The windows of a pool over images [rows, height, width, channels]; outputs
/// are [rows, high, wide, channels].
struct Windows {
  size_t rows, height, width, channels;
  size_t high, wide;
  size_t kernel_height, kernel_width, stride, padding;
};

/// The loops of pools, with the same bits on each instruction set. Windows
/// leave out what lies outside of the image and are walked row by row. Every
/// window must hold at least one element.
struct PoolTable {
  /// y: the largest of each window, of equal ones the first; a NaN counts as
  /// the largest. `chosen`, of y's shape: where it was, counted in the window;
  /// null: not wanted.
  void (*max_forward)(const Windows& w, const float* x, float* y,
                      int32_t* chosen);
  /// dx: dy where it was chosen, else 0; added to what is there where `add`.
  void (*max_backward)(const Windows& w, const int32_t* chosen, const float* dy,
                       float* dx, bool add);
  void (*average_forward)(const Windows& w, const float* x, float* y);
  void (*average_backward)(const Windows& w, const float* dy, float* dx,
                           bool add);
};

const PoolTable& pool_loops(Isa isa);
const PoolTable& pool_loops();

} // namespace troupe::kernels
