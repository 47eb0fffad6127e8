#include "kernels/records/colour_change.hpp"

#include <algorithm>
#include <cstddef>

namespace troupe {

namespace {

constexpr int32_t unit_factor = 65'536;

uint8_t clamped(int32_t value) {
  return static_cast<uint8_t>(std::clamp(value, 0, 255));
}

/// A distance from `middle` times a factor; half-way goes up.
uint8_t stretched(int32_t value, int32_t middle, int32_t factor) {
  return clamped(middle
                 + (((value - middle) * factor + unit_factor / 2) >> 16));
}

int32_t grey_of(const uint8_t* pixel) {
  return (19'595 * pixel[0] + 38'470 * pixel[1] + 7'471 * pixel[2]
          + unit_factor / 2)
         >> 16;
}

int32_t mean_grey(const uint8_t* pixels, size_t count, uint32_t channels) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i)
    sum += static_cast<uint64_t>(channels == 3 ? grey_of(pixels + 3 * i)
                                               : int32_t{pixels[i]});
  return static_cast<int32_t>((sum + count / 2) / count);
}

} // namespace

void mirror(uint8_t* pixels, const PixelGrid& grid) {
  const auto channels = size_t{grid.channels};
  for (size_t y = 0; y < grid.height; ++y) {
    auto* row = pixels + y * grid.width * channels;
    for (size_t left = 0, right = grid.width - 1; left < right; ++left, --right)
      std::swap_ranges(row + left * channels, row + (left + 1) * channels,
                       row + right * channels);
  }
}

void change_colours(uint8_t* pixels, const PixelGrid& grid,
                    const std::array<uint32_t, 3>& factors) {
  const auto count = size_t{grid.height} * grid.width;
  const auto values = count * grid.channels;
  const auto brightness = static_cast<int32_t>(factors[0]);
  const auto contrast = static_cast<int32_t>(factors[1]);
  const auto saturation = static_cast<int32_t>(factors[2]);
  // The first two are the same for all values: a table of what each becomes.
  std::array<uint8_t, 256> table;
  for (int32_t value = 0; value < 256; ++value)
    table[static_cast<size_t>(value)] = stretched(value, 0, brightness);
  if (brightness != unit_factor)
    for (size_t i = 0; i < values; ++i)
      pixels[i] = table[pixels[i]];
  if (contrast != unit_factor) {
    const auto middle = mean_grey(pixels, count, grid.channels);
    for (int32_t value = 0; value < 256; ++value)
      table[static_cast<size_t>(value)] = stretched(value, middle, contrast);
    for (size_t i = 0; i < values; ++i)
      pixels[i] = table[pixels[i]];
  }
  if (saturation != unit_factor && grid.channels == 3)
    for (size_t i = 0; i < count; ++i) {
      auto* pixel = pixels + 3 * i;
      const auto grey = grey_of(pixel);
      for (size_t c = 0; c < 3; ++c)
        pixel[c] = stretched(pixel[c], grey, saturation);
    }
}

} // namespace troupe
