#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace troupe {

/// How buckets are cut among members: a run of each for each, and chunks of a
/// run, one frame each. Units: elements.
class RunGrid {
public:
  struct Options {
    uint32_t members = 1;
    uint64_t unit = 16;        ///< runs and chunks begin at multiples
    uint64_t chunk = 64 << 10; ///< at most, in whole units
    bool everyone = false;     ///< a bucket is one run, which all members own
  };

  RunGrid(std::vector<std::pair<uint64_t, uint64_t>> buckets, Options options);

  uint32_t buckets() const { return static_cast<uint32_t>(buckets_.size()); }
  std::pair<uint64_t, uint64_t> bucket(uint32_t b) const { return buckets_[b]; }
  /// Elements of the flat vector, up to the last bucket's end.
  uint64_t elements() const { return elements_; }
  std::pair<uint64_t, uint64_t> run(uint32_t bucket, uint32_t run) const;
  /// At least 1: an empty run has an empty chunk, so that all pairs of members
  /// talk in every bucket.
  uint32_t chunks(uint32_t bucket, uint32_t run) const;
  std::pair<uint64_t, uint64_t> chunk(uint32_t bucket, uint32_t run,
                                      uint32_t index) const;
  uint64_t longest_chunk() const { return longest_; }

private:
  std::vector<std::pair<uint64_t, uint64_t>> buckets_;
  Options options_;
  uint64_t elements_ = 0;
  uint64_t longest_ = 0;
};

/// A place in the chunks of a run over all buckets, and in the frames of a
/// chunk.
struct GridCursor {
  uint32_t bucket = 0;
  uint32_t chunk = 0;
  uint32_t part = 0;
  uint64_t index = 0; ///< of the chunk, over all buckets

  /// Goes on to the next of so many frames of a chunk.
  void advance(const RunGrid& grid, uint32_t run, uint32_t parts);
};

} // namespace troupe
