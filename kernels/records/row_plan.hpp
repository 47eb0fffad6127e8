#pragma once

#include "kernels/records/image.hpp"
#include "kernels/records/record_format.hpp"

namespace troupe {

/// What a user says of the features of records.
struct RowWishes {
  Shape shape;     ///< empty: as found
  ImageSize image; ///< height 0: that of the first image
};

/// Rows made of one string of bytes a sample: an image file, or the values
/// themselves.
class BytesRows {
public:
  explicit BytesRows(RowWishes wishes) : wishes_(std::move(wishes)) {}

  /// Learns from the first sample.
  /// Errors: InputError (of another size than the shape that was wished).
  RowLayout begin(const Record& bytes);
  /// Writes [layout.values()] bytes.
  void decode(const Record& bytes, uint8_t* row) const;

private:
  RowWishes wishes_;
  ImageSize image_;
  bool images_ = false;
  bool exact_ = false; ///< no size was asked for: all are like the first
  uint64_t bytes_ = 0; ///< of a sample that is no image
};

/// The shape that was wished where it has so many values, else [values].
/// Errors: InputError where it has not.
Shape shape_of_row(const RowWishes& wishes, uint64_t values,
                   const Record& first);

} // namespace troupe
