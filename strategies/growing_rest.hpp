#pragma once

#include <cstdint>

namespace troupe {

/// How long to rest between two tries of the same: twice as long each time, up
/// to a bound, and of that anything from the half to the whole. So many who
/// failed at one moment do not try again at one moment. Pure: chance is an
/// argument.
class GrowingRest {
public:
  struct Options {
    uint64_t first_ms = 100;
    uint64_t max_ms = 1'000;
  };

  GrowingRest() : GrowingRest(Options{}) {}
  explicit GrowingRest(const Options& options);

  /// The next rest, in milliseconds. `drawn`: any number; all are to be equally
  /// likely.
  uint64_t next_ms(uint64_t drawn);
  /// There was an answer: rests begin anew.
  void begin() { whole_ms_ = options_.first_ms; }

private:
  Options options_;
  uint64_t whole_ms_;
};

} // namespace troupe
