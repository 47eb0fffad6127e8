#pragma once

#include "actors/wire/messages/joining.hpp"
#include "strategies/leases.hpp"
#include "strategies/plan.hpp"

#include <set>
#include <vector>

namespace troupe {

/// The chains of an epoch, by slice: the activation's, or else those that the
/// plan begins with.
std::vector<SliceChain> chains_of(const Activate& activation, const Plan& plan);

/// Whom pushes of each slice go to; ~0 for a slice without replicas.
std::vector<uint32_t> heads_of(const std::vector<SliceChain>& chains);

/// Whom each slice is read from; ~0 for a slice without replicas.
std::vector<uint32_t> tails_of(const std::vector<SliceChain>& chains);

/// The virtual ranks that a worker owns in the epoch.
RankRange ranks_of(const Activate& activation, RoleId worker);

/// The leases that the head of each slice has.
std::vector<LeaseSet> leases_of(const Activate& activation);

/// The shards that `shard` sends to: its neighbours in each chain and, where
/// steps have scalars, the head of slice 0, which decides them.
std::set<uint32_t> neighbours_of(const std::vector<SliceChain>& chains,
                                 uint32_t shard, bool with_scalars);

/// The slices of which a shard is a replica.
std::vector<uint32_t> replicated_by(const std::vector<SliceChain>& chains,
                                    uint32_t shard);

} // namespace troupe
