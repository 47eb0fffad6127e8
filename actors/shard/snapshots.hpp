#pragma once

#include "actors/shard/frame.hpp"

namespace troupe {

/// Sends the coordinator a copy of a slice that the store holds in `version`,
/// as part of the snapshot of version `named`. `lasting`: no update follows.
void send_snapshot(ShardFrame& shard, uint32_t slice, uint64_t version,
                   uint64_t named, bool lasting);

} // namespace troupe
