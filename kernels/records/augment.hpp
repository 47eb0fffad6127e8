#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// What is drawn of a sample in a data epoch; without a key nothing is drawn,
/// as for evaluation.
struct SampleDraw {
  std::optional<uint64_t> key;
};

/// The key of a sample's draws: of (seed, data epoch, sample) alone, so that it
/// does not matter who decodes it, and when.
uint64_t augment_key(uint64_t seed, uint64_t data_epoch, uint64_t sample);

/// What becomes of an image after it is decoded, step by step.
struct Augmentation {
  /// random_resized_crop:SIZE or HEIGHTxWIDTH; 0: there is none.
  uint32_t crop_height = 0;
  uint32_t crop_width = 0;
  bool flip = false;
  /// colour:BRIGHTNESS[:CONTRAST:SATURATION]: each factor is drawn from
  /// [1 - x, 1 + x]; 0: as it is.
  std::array<double, 3> colour{};
  /// normalise:imagenet, or normalise:MEAN/…:DEVIATION/…, of pixels / 255; one
  /// each a channel. Without it pixels stay bytes.
  bool normalise = false;
  std::array<double, 3> mean{};
  std::array<double, 3> deviation{1, 1, 1};
  uint32_t normalised_channels = 0; ///< that mean and deviation are given for

  bool is_empty() const {
    return crop_height == 0 && !flip && !has_colour() && !normalise;
  }
  bool has_colour() const { return colour != std::array<double, 3>{}; }
};

/// "random_resized_crop:224,flip,colour:0.4,normalise:imagenet". Each step
/// once, in this order, since they are carried out in it. Errors: InputError
/// with the step and what is wrong with it; no line names the specification.
Augmentation parse_augmentation(std::string_view text);

/// A rectangle of an image, in its pixels.
struct CropArea {
  uint32_t top = 0;
  uint32_t left = 0;
  uint32_t height = 0;
  uint32_t width = 0;

  bool operator==(const CropArea&) const = default;
};

/// The part of an image of height x width that is scaled to the crop's size:
/// drawn, an area of 8 % to all of the image and a shape from 3:4 to 4:3; where
/// ten draws do not fit into it, the largest of such a shape at its middle. Not
/// drawn, seven eighths of the largest of the crop's own shape at its middle.
/// Source: Szegedy et al., "Going Deeper with Convolutions", CVPR 2015, 6; as
/// torchvision's RandomResizedCrop has it.
CropArea crop_area(const Augmentation& steps, const SampleDraw& draw,
                   uint32_t height, uint32_t width);

/// Whether this sample is mirrored.
bool is_flipped(const Augmentation& steps, const SampleDraw& draw);

/// Brightness, contrast and saturation as they are drawn, in 1/65536.
std::array<uint32_t, 3> colour_factors(const Augmentation& steps,
                                       const SampleDraw& draw);

} // namespace troupe
