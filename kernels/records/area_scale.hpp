#pragma once

#include <cstdint>

namespace troupe {

/// An image's extents in pixels and its channels, [height, width, channels].
struct PixelGrid {
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t channels = 0;
};

/// Brings an image to `to.height` x `to.width`: the largest rectangle of that
/// shape at its middle is taken, and each pixel of the result is the mean of
/// the area it covers, rounded to the nearest. Whole numbers alone, so the bits
/// are the same on every machine.
/// Shapes: `in` [from], `out` [to], with equal channels.
void scale_area(const uint8_t* in, const PixelGrid& from, uint8_t* out,
                const PixelGrid& to);

} // namespace troupe
