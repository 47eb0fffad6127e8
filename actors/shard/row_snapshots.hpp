#pragma once

#include "actors/wire/messages.hpp"
#include "kernels/table/row_list.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace troupe {

struct Job;
struct ShardContext;

/// What a snapshot is for.
enum class Shown {
  all,       ///< a checkpoint; an evaluation
  evaluated, ///< an evaluation: the rows that it reads will do
  last       ///< no update follows
};

/// Snapshots of parts of sparse tables on their way to the coordinator, chunk
/// by chunk: the next one goes when the one before has been taken. All chunks
/// are copied at the beginning, since updates go on; but for the last version
/// of a run, which no update follows: there each is copied when it is sent.
class RowSnapshots {
public:
  /// Sends the rows of a slice, which the store holds in `version`, as part of
  /// the snapshot of version `named`.
  void begin(ShardContext& shard, uint32_t slice, uint64_t version,
             uint64_t named, Shown shown);
  /// Evaluations read these rows of a slice.
  void evaluation_reads(const Job& job, const RowPull& pull);
  void took(ShardContext& shard, const SnapshotTaken& chunk);

private:
  struct Open {
    uint64_t version = 0;
    bool evaluated = false; ///< only what evaluations read
    uint64_t bytes = 0;
    SliceHistory history;
    std::vector<IdPages> pages;     ///< of each chunk
    std::vector<TensorView> copies; ///< of each chunk, or none yet
  };
  using Key = std::pair<uint32_t, uint64_t>; ///< slice, name

  void send(ShardContext& shard, const Key& key, uint32_t part);

  std::map<Key, Open> open_;
  std::map<uint32_t, std::shared_ptr<const RowList>> read_; ///< by slice
};

} // namespace troupe
