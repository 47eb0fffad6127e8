#pragma once

#include "actors/shard/shard_context.hpp"

namespace troupe {

/// A copy of a dense slice that the store holds in `version`, with its history.
/// Call where no update can overwrite it: in the actor of a version that nobody
/// was told of, or on the executor.
SnapshotSlice copy_of(const Job& job, uint64_t job_id, const ShardStore& store,
                      uint32_t slice, uint64_t version, SliceHistory history);
/// The same, as part of the snapshot of version `named`.
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
