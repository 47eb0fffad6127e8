#pragma once

#include "kernels/records/area_scale.hpp"

#include <array>
#include <cstdint>

namespace troupe {

/// Turns left and right of an image around.
/// Shapes: `pixels` [grid].
void mirror(uint8_t* pixels, const PixelGrid& grid);

/// Changes brightness (values times a factor), then contrast (distances from
/// the image's mean grey), then saturation (distances from each pixel's grey;
/// nothing where there is one channel), each by a factor in 1/65536, at most 2.
/// Whole numbers alone: the same bits on every machine.
/// Shapes: `pixels` [grid] with 1 or 3 channels.
/// Source: the operations are those of torchvision's ColorJitter without hue,
/// in this order; grey is ITU-R BT.601's.
void change_colours(uint8_t* pixels, const PixelGrid& grid,
                    const std::array<uint32_t, 3>& factors);

} // namespace troupe
