#include "kernels/records/row_plan.hpp"

#include <cstring>

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
    if (wishes_.image.height > 0)
      bytes.refuse("is neither a JPEG nor a PNG image", "leave size= out");
    bytes_ = bytes.bytes.size();
    layout.shape = shape_of_row(wishes_, bytes_, bytes);
    return layout;
  }
  image_ = wishes_.image;
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
  return layout;
}

void BytesRows::decode(const Record& bytes, uint8_t* row) const {
  if (images_)
    return decode_image(bytes, image_, exact_, row);
  if (bytes.bytes.size() != bytes_)
    bytes.refuse("the sample has " + std::to_string(bytes.bytes.size())
                   + " bytes, the first one " + std::to_string(bytes_),
                 "make them of one size");
  std::memcpy(row, bytes.bytes.data(), bytes_);
}

} // namespace troupe
