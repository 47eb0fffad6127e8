#pragma once

#include "kernels/records/image.hpp"
#include "kernels/records/record_format.hpp"

#include <array>

namespace troupe {

/// What a user says of the features of records.
struct RowWishes {
  Shape shape;     ///< empty: as found
  ImageSize image; ///< height 0: that of the first image
  Augmentation augment;
};

/// Rows made of one string of bytes a sample: an image file, or the values
/// themselves.
class BytesRows {
public:
  explicit BytesRows(RowWishes wishes) : wishes_(std::move(wishes)) {}

  /// Learns from the first sample.
  /// Errors: InputError (of another size than the shape that was wished).
  RowLayout begin(const Record& bytes);
  /// Writes [layout.values()] of its type.
  void decode(const Record& bytes, void* row, const SampleDraw& draw) const;

private:
  void learn_normal();
  void augment(const Record& bytes, const SampleDraw& draw,
               uint8_t* pixels) const;

  RowWishes wishes_;
  ImageSize image_;
  /// [3, 256]: what each value of a channel becomes.
  std::array<std::array<float, 256>, 3> normalised_{};
  bool images_ = false;
  bool exact_ = false; ///< no size was asked for: all are like the first
  uint64_t bytes_ = 0; ///< of a sample that is no image
};

/// The shape that was wished where it has so many values, else [values].
/// Errors: InputError where it has not.
Shape shape_of_row(const RowWishes& wishes, uint64_t values,
                   const Record& first);

} // namespace troupe
