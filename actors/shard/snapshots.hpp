#pragma once

#include "actors/shard/shard_context.hpp"

namespace troupe {

/// A copy of a dense slice that the store holds in `version`, as part of the
/// snapshot of version `named`. Call where no update can overwrite it: in the
/// actor of a version that nobody was told of, or on the executor.
SnapshotSlice copy_of(const ShardContext& shard, uint32_t slice,
                      uint64_t version, uint64_t named);

/// What a slice is the outcome of in `version`.
SliceHistory history_of(const ShardContext& shard, uint32_t slice,
                        uint64_t version);

/// Sends the coordinator a copy of a slice that the store holds in `version`,
/// as part of the snapshot of version `named`.
void send_snapshot(ShardContext& shard, uint32_t slice, uint64_t version,
                   uint64_t named, Shown shown);

} // namespace troupe
