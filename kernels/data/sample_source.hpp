#pragma once

#include "kernels/records/augment.hpp"

#include <cstdint>

namespace troupe {

struct Dataset;
struct MixRule;

/// Features of samples that are not held in memory. Any thread may ask.
class SampleSource {
public:
  virtual ~SampleSource() = default;
  /// Writes the features of a sample as the data set holds them, bytes or
  /// float32: the same bits whenever it is asked with the same draw.
  /// Errors: InputError with file and offset.
  virtual void read(uint64_t sample, void* row,
                    const SampleDraw& draw) const = 0;
  /// Writes the ids of a sample, where its data set holds none itself.
  /// Errors: as read().
  virtual void read_ids(uint64_t /*sample*/, int32_t* /*ids*/) const {}
  /// The class of a sample, where its data set holds none itself.
  virtual int32_t label(uint64_t /*sample*/) const { return 0; }
  /// How many bytes of its file a sample takes.
  virtual uint64_t stored_bytes(uint64_t sample) const = 0;
  /// Whether samples to train on can be read as they are mixed.
  /// Errors: InputError that says what to do.
  virtual void check_mix(const Dataset& /*train*/,
                         const MixRule& /*mix*/) const {}
  /// Says that a sample is read soon; what has to come from elsewhere is
  /// fetched meanwhile. Errors: InputError (its file cannot be opened).
  virtual void expect(uint64_t /*sample*/) const {}
  /// Whether expect() is worth a call.
  virtual bool is_elsewhere() const { return false; }
};

} // namespace troupe
