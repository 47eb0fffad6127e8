#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe {

/// Where a role looks for its coordinator: one place after the other, each for
/// a while. One at which a process is stopped, or cut off, takes all of that
/// while, and the one that leads is at another. So each is asked briefly first,
/// and for twice as long whenever that was too short, as a network may be slow.
/// Where there is a single place, it may take longer still: a host may be so
/// busy that no answer ever came in the time that is usual.
class PlaceSearch {
public:
  struct Options {
    size_t places = 1;
    uint64_t first_ms = 300;        ///< to connect, and the same to answer
    uint64_t max_ms = 2'000;        ///< the same; a single place begins with it
    uint64_t max_single_ms = 4'800; ///< the same, where there is no other
  };
  struct Try {
    size_t place = 0;
    uint64_t patience_ms = 0;
  };

  explicit PlaceSearch(Options options);

  /// The coordinator is lost: all places are asked briefly again.
  void begin();
  /// `briefly`: there is one, which may answer again.
  Try next(bool briefly);
  /// The place tried last did not answer in its time.
  void ran_out();

private:
  Options options_;
  size_t place_ = 0;               ///< tried last
  std::vector<uint64_t> patience_; ///< by place
};

} // namespace troupe
