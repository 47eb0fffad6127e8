#pragma once

#include "strategies/rank_tree.hpp"
#include "strategies/role_id.hpp"

#include <cstdint>
#include <map>
#include <vector>

/// What members say as they leave an epoch, and what they are told of the next.
namespace troupe {

/// What an owner holds of one slice: it can serve versions oldest … newest.
struct SliceState {
  uint32_t slice = 0;
  uint64_t oldest = 0;
  uint64_t newest = 0;
  std::vector<RankRange> held; ///< nodes of step `newest`
  uint64_t lease_floor = 0;    ///< async
  std::vector<uint64_t> leases_above;
  /// The newest epoch in which the owner was a replica of the slice and had all
  /// that its predecessor had. Of replicas that differ in it, the one with the
  /// larger has the slice's history, whatever the versions say: what another
  /// applied alone since was never acknowledged.
  uint64_t epoch = 0;
};

/// What a member holds as it leaves an epoch.
struct Seal {
  uint64_t incarnation = 0;
  std::vector<SliceState> slices; ///< empty for a role that owns none
  uint64_t version = 0; ///< replica: it holds all slices of it; worker: the
                        ///< step of which it has, or computes, `nodes`
  std::vector<RankRange> nodes;
};
using Seals = std::map<RoleId, Seal>;

/// Who keeps a slice in an epoch. Shard indices.
struct SliceChain {
  uint32_t slice = 0;
  std::vector<uint32_t> replicas; ///< head (takes pushes) … tail (is pulled)
  std::vector<uint32_t> learners; ///< get a copy from the tail, and updates
};

/// The virtual ranks that a worker owns in an epoch.
struct WorkerRanks {
  RoleId worker;
  RankRange ranks;
  /// Replicas: nodes of the step that the epoch begins with whose sums it has.
  std::vector<RankRange> held{};
};

} // namespace troupe
