#pragma once

#include "kernels/records/area_scale.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe {

/// A part of an image in pixels of it, which need not be whole.
struct ImagePart {
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;
};

/// Scales a part of an image to `to`: each pixel is a mean of those around it
/// with weights that fall off linearly, over as wide an area as a pixel of the
/// result covers (bilinear, with antialiasing). What lies outside of the part
/// plays no role. Weights are whole numbers, and so are sums; the bits are the
/// same on every machine. `mirror` turns left and right around.
/// Shapes: `in` [from], of red, green, blue and a byte that is not looked at
/// (4 channels), or grey (1); `out` [to] with 3 channels, or 1. The part lies
/// within the image.
void scale_part(const uint8_t* in, const PixelGrid& from, const ImagePart& part,
                bool mirror, uint8_t* out, const PixelGrid& to);

} // namespace troupe
