#pragma once

#include <cstdint>
#include <map>

namespace troupe {

/// How fast each shard is, from how busy it says it is and how many bytes it
/// keeps: steps touch all bytes alike, so a shard that is busier for each byte
/// takes longer. Pure: times come with the events.
class ShardLoads {
public:
  /// A shard keeps so many bytes from here on; what was measured before counts
  /// no more.
  void keeps(uint32_t shard, uint64_t bytes);
  void forget(uint32_t shard) { shards_.erase(shard); }
  /// Its executor has worked for so long since its process began.
  void busy(uint32_t shard, double seconds, uint64_t now_ms);

  /// What a byte costs each shard, 1 at the median. Named are those alone that
  /// differ by more than chance: a quarter and more, measured for two seconds
  /// and busy for a tenth of one; by a factor of four at most.
  std::map<uint32_t, double> costs() const;

private:
  struct Shard {
    uint64_t bytes = 0;
    bool seen = false;
    double first_seconds = 0, last_seconds = 0;
    uint64_t first_ms = 0, last_ms = 0;
  };
  std::map<uint32_t, Shard> shards_;
};

} // namespace troupe
