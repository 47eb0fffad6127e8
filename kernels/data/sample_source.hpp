#pragma once

#include "kernels/records/augment.hpp"

#include <cstdint>

namespace troupe {

/// Features of samples that are not held in memory. Any thread may ask.
class SampleSource {
public:
  virtual ~SampleSource() = default;
  /// Writes the features of a sample as the data set holds them, bytes or
  /// float32: the same bits whenever it is asked with the same draw.
  /// Errors: InputError with file and offset.
  virtual void read(uint64_t sample, void* row,
                    const SampleDraw& draw) const = 0;
  /// How many bytes of its file a sample takes.
  virtual uint64_t stored_bytes(uint64_t sample) const = 0;
  /// Says that a sample is read soon; what has to come from elsewhere is
  /// fetched meanwhile. Errors: InputError (its file cannot be opened).
  virtual void expect(uint64_t /*sample*/) const {}
  /// Whether expect() is worth a call.
  virtual bool is_elsewhere() const { return false; }
};

} // namespace troupe
