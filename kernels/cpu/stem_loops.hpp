#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>

namespace troupe::kernels {

/// A convolution of few channels over one image with its padding around it,
/// [height, width, channels]; weights [kernel, kernel, channels, units],
/// outputs [high, wide, units].
struct StemShape {
  size_t width, channels; ///< of the padded image
  size_t high, wide, units;
  size_t kernel, stride;
};

/// Loops for the first convolution of a network. Products may round otherwise
/// on another instruction set.
struct StemTable {
  /// bias may be null.
  void (*forward)(const StemShape& s, const float* image, const float* weights,
                  const float* bias, bool relu, float* y);
  /// gradients += those of one image; where y is given, dy counts as 0 wherever
  /// y <= 0. bias_gradient may be null.
  void (*backward)(const StemShape& s, const float* image, const float* dy,
                   const float* y, float* weight_gradient,
                   float* bias_gradient);
};

const StemTable& stem_loops(Isa isa);
const StemTable& stem_loops();

} // namespace troupe::kernels
