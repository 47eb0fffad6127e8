#pragma once

#include "actors/messages.hpp"
#include "kernels/table/id_pages.hpp"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace troupe {

struct ShardFrame;

/// Snapshots of parts of sparse tables on their way to the coordinator, chunk
/// by chunk: the next one goes when the one before has been taken. What no
/// update will change any more is copied no earlier than that.
class RowSnapshots {
public:
  /// Sends the rows of a slice, which the store holds in `version`, as part of
  /// the snapshot of version `named`. `lasting`: it is the last version.
  void begin(ShardFrame& shard, uint32_t slice, uint64_t version,
             uint64_t named, bool lasting);
  void took(ShardFrame& shard, const RowSnapshotTaken& chunk);

private:
  struct Open {
    uint64_t version = 0;
    uint64_t bytes = 0;
    SliceHistory history;
    std::vector<IdPages> pages;     ///< of each chunk
    std::vector<TensorView> copies; ///< of each chunk, or none yet
  };
  using Key = std::pair<uint32_t, uint64_t>; ///< slice, named version

  void send(ShardFrame& shard, const Key& key, uint32_t part);

  std::map<Key, Open> open_;
};

} // namespace troupe
