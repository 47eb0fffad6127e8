#pragma once

#include "actors/job/job.hpp"
#include "actors/wire/messages.hpp"
#include "strategies/role_id.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace troupe::sim {

inline bool is_replica(const std::vector<SliceChain>& chains, uint32_t shard,
                       uint32_t slice) {
  const auto& replicas = chains[slice].replicas;
  return std::ranges::find(replicas, shard) != replicas.end();
}

/// Whether all that a shard holds is with another one, too, which is a replica
/// of the newest epoch and has had all of it in that. `members` are roles with
/// their `store`.
template <class Members>
bool is_held_elsewhere(const Job& job, const Members& members,
                       const std::vector<SliceChain>& chains, uint64_t epoch,
                       RoleId shard) {
  const auto& own = members.at(shard).store;
  return std::ranges::all_of(job.plan.slices, [&](const Slice& slice) {
    return !own->holds(slice.id)
           || std::ranges::any_of(members, [&](const auto& x) {
                const auto& [role, member] = x;
                return role.kind == RoleKind::shard && role != shard
                       && is_replica(chains, role.index, slice.id)
                       && member.store->holds(slice.id)
                       && member.store->lineage(slice.id) == epoch;
              });
  });
}

} // namespace troupe::sim
