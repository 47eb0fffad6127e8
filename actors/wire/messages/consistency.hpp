#pragma once

#include "actors/wire/messages/fields.hpp"
#include "strategies/consistency.hpp"

#include <string>
#include <vector>

/// k of n, and switching while a job runs.
namespace troupe {

/// A shard wants to know what the decider has written down of the newest steps,
/// and all that it decides from here on in this epoch.
struct AskShares {
  Fence fence;
};
/// The decider to shards and coordinator: what `step` is made of (PROTOCOL 13).
struct StepShares {
  Fence fence;
  uint64_t step = 0;
  std::vector<RankRange> shares;
};
/// Somebody outside asks the job to go on like this; answered once it is so.
struct SwitchConsistency {
  std::string mode; ///< "sync", "async" or "staleness:N"
};

TROUPE_INSPECT(Consistency, TROUPE_FIELD(async), TROUPE_FIELD(staleness),
               TROUPE_FIELD(period), TROUPE_FIELD(step), TROUPE_FIELD(updates))
TROUPE_INSPECT(AskShares, TROUPE_FIELD(fence))
TROUPE_INSPECT(StepShares, TROUPE_FIELD(fence), TROUPE_FIELD(step),
               TROUPE_FIELD(shares))
TROUPE_INSPECT(SwitchConsistency, TROUPE_FIELD(mode))

} // namespace troupe
