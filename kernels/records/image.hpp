#pragma once

#include "kernels/records/augment.hpp"
#include "kernels/records/record_format.hpp"

#include <cstdint>
#include <span>

namespace troupe {

/// An image in memory: [height, width, channels] of bytes.
struct ImageSize {
  uint32_t height = 0; ///< 0: as the file has it
  uint32_t width = 0;
  uint32_t channels = 3; ///< 3: red, green, blue; 1: grey

  bool operator==(const ImageSize&) const = default;
};

/// An image may have so many pixels: what decoding it takes is three bytes
/// each at most.
constexpr uint64_t max_pixels = 40'000'000;

/// Whether bytes begin like a JPEG or a PNG file.
bool is_image(std::span<const uint8_t> bytes);

/// Height and width as the head of a JPEG or PNG file says.
/// Errors: InputError with file and offset (neither of them, damaged, above
/// max_pixels).
ImageSize image_size(const Record& record);

/// Decodes a JPEG or PNG file to `wanted`, [height, width, channels]. What has
/// another shape is scaled until it covers that, and cut at its middle. Each
/// pixel is the mean of the area it covers, in whole numbers, so its bits
/// follow from the decoder's. JPEG is decoded at the smallest of the scales
/// 8/8 to 1/8 that is not smaller than what is wanted. Transparency is
/// laid over black.
/// Errors: as image_size; also an image of another size where `wanted` was not
/// asked for (`exact`).
void decode_image(const Record& record, const ImageSize& wanted, bool exact,
                  uint8_t* out);

/// Decodes the part of a JPEG or PNG file that `steps` and `draw` say, scaled
/// to the crop's size and mirrored where that is drawn: [height, width,
/// channels]. Of a JPEG no more is decoded than the part, at the smallest of
/// the scales 8/8 to 1/8 that is not smaller than what is wanted.
/// Errors: as image_size.
void decode_crop(const Record& record, const Augmentation& steps,
                 const SampleDraw& draw, uint32_t channels, uint8_t* out);

} // namespace troupe
