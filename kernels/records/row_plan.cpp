#include "kernels/records/row_plan.hpp"

#include "kernels/records/colour_change.hpp"

#include <cstring>
#include <vector>

namespace troupe {

Shape shape_of_row(const RowWishes& wishes, uint64_t values,
                   const Record& first) {
  if (values == 0)
    first.refuse("the sample has no features", "is it the right file?");
  if (wishes.shape.empty())
    return {values};
  if (elements(wishes.shape) != values)
    first.refuse("the sample has " + std::to_string(values)
                   + " values, shape= names " + to_string(wishes.shape),
                 "give the extents of one sample");
  return wishes.shape;
}

RowLayout BytesRows::begin(const Record& bytes) {
  RowLayout layout;
  layout.is_bytes = true;
  layout.scale = 1.0f / 255.0f;
  images_ = is_image(bytes.bytes);
  if (!images_) {
    if (wishes_.image.height > 0 || !wishes_.augment.is_empty())
      bytes.refuse("is neither a JPEG nor a PNG image",
                   wishes_.image.height > 0 ? "leave size= out"
                                            : "leave augment= out");
    bytes_ = bytes.bytes.size();
    layout.shape = shape_of_row(wishes_, bytes_, bytes);
    return layout;
  }
  const auto& steps = wishes_.augment;
  image_ = wishes_.image;
  if (steps.crop_height > 0) {
    image_.height = steps.crop_height;
    image_.width = steps.crop_width;
  }
  exact_ = image_.height == 0;
  if (exact_) {
    image_ = image_size(bytes);
    image_.channels = wishes_.image.channels;
  }
  layout.shape = {image_.height, image_.width, image_.channels};
  if (!wishes_.shape.empty() && wishes_.shape != layout.shape)
    bytes.refuse("the image has the shape " + to_string(layout.shape)
                   + ", shape= names " + to_string(wishes_.shape),
                 "leave shape= out, and give size=HEIGHTxWIDTH");
  if (steps.normalise) {
    layout.is_bytes = false;
    layout.scale = 1.0f;
    learn_normal();
  }
  return layout;
}

/// Each value of a byte, in float64 and rounded once.
void BytesRows::learn_normal() {
  const auto& steps = wishes_.augment;
  for (size_t c = 0; c < image_.channels; ++c)
    for (size_t value = 0; value < 256; ++value)
      normalised_[c][value] =
        static_cast<float>((static_cast<double>(value) / 255.0 - steps.mean[c])
                           / steps.deviation[c]);
}

/// Decodes, crops, mirrors and colours: [height, width, channels] of bytes.
void BytesRows::augment(const Record& bytes, const SampleDraw& draw,
                        uint8_t* pixels) const {
  const auto& steps = wishes_.augment;
  const PixelGrid grid{image_.height, image_.width, image_.channels};
  if (steps.crop_height > 0) {
    decode_crop(bytes, steps, draw, image_.channels, pixels);
  } else {
    decode_image(bytes, image_, exact_, pixels);
    if (is_flipped(steps, draw))
      mirror(pixels, grid);
  }
  if (steps.has_colour() && draw.key)
    change_colours(pixels, grid, colour_factors(steps, draw));
}

void BytesRows::decode(const Record& bytes, void* row,
                       const SampleDraw& draw) const {
  const auto& steps = wishes_.augment;
  if (images_ && steps.normalise) {
    thread_local std::vector<uint8_t> pixels;
    pixels.resize(size_t{image_.height} * image_.width * image_.channels);
    augment(bytes, draw, pixels.data());
    auto* out = static_cast<float*>(row);
    for (size_t i = 0; i < pixels.size(); i += image_.channels)
      for (size_t c = 0; c < image_.channels; ++c)
        out[i + c] = normalised_[c][pixels[i + c]];
    return;
  }
  if (images_ && !steps.is_empty())
    return augment(bytes, draw, static_cast<uint8_t*>(row));
  if (images_)
    return decode_image(bytes, image_, exact_, static_cast<uint8_t*>(row));
  if (bytes.bytes.size() != bytes_)
    bytes.refuse("the sample has " + std::to_string(bytes.bytes.size())
                   + " bytes, the first one " + std::to_string(bytes_),
                 "make them of one size");
  std::memcpy(row, bytes.bytes.data(), bytes_);
}

} // namespace troupe
