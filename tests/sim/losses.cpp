#include "tests/sim/chain_memory.hpp"
#include "tests/sim/cluster.hpp"

#include <algorithm>

// How much may be lost at once; and in reckless worlds, more than that.

namespace troupe::sim {

/// Whoever loses this process loses more than the job promises to survive.
bool Cluster::guarded(uint32_t process) {
  if (!scenario_.reduces() || is_shard(process))
    return is_shard(process) && fragile();
  if (blocked_until_ > runtime_.now())
    return true;
  for (const auto& [role, member] : members_)
    if (member.up && member.process != process
        && !doomed_.contains(member.process) && !runtime_.paused(member.process)
        && replicas_.has_all(member.process)
        && std::ranges::find(active_, member.process) != active_.end())
      return false;
  return true;
}

/// A chain has lost a replica for good and is not whole again.
bool Cluster::fragile() {
  if (!memory_lost_)
    return false;
  for (const auto& [role, member] : members_)
    if (role.kind == RoleKind::shard && !may_lose_memory(role))
      return true;
  memory_lost_ = false;
  return false;
}

/// One after the other, so that some may begin an epoch, or come back, before
/// the others die; one may stand still meanwhile, and have less than the others
/// have told of.
bool Cluster::lose_chain() {
  if (activated_ == 0)
    return false;
  auto& draw = runtime_.random();
  if (scenario_.kind == Scenario::Kind::dense_reduced && draw.chance(50))
    return lose_workers();
  const auto& replicas = chains_[draw.below(chains_.size())].replicas;
  if (!replicas.empty() && draw.chance(50))
    runtime_.pause(
      members_.at({RoleKind::shard, replicas[draw.below(replicas.size())]})
        .process,
      runtime_.now() + 200'000);
  const bool keep = draw.chance(50);
  for (auto shard : replicas)
    runtime_.after(draw.below(60'000),
                   [this, role = RoleId{RoleKind::shard, shard},
                    with_memory = !keep && draw.chance(50)] {
                     if (!over_ && members_.contains(role)
                         && runtime_.alive(members_.at(role).process))
                       kill(role, with_memory);
                   });
  return true;
}

/// With them the layers that they keep.
bool Cluster::lose_workers() {
  auto& draw = runtime_.random();
  for (const auto& [role, member] : members_)
    if (role.kind == RoleKind::worker)
      runtime_.after(draw.below(60'000), [this, process = member.process] {
        if (!over_)
          runtime_.kill(process, "killed");
      });
  return true;
}

/// At most f of 1 + f replicas fail before a chain is repaired: all others are
/// up, and hold what this one holds, as replicas of the epoch that lasts.
bool Cluster::may_lose_memory(RoleId shard) const {
  const auto& own = members_.at(shard);
  if (scenario_.chain < 2 || !own.store || pulled_epoch_ != activated_
      || activated_ == 0)
    return false;
  for (const auto& [role, member] : members_)
    if (role.kind == RoleKind::shard
        && (!member.store || !member.up || runtime_.paused(member.process)
            || blocked_until_ > runtime_.now()))
      return false;
  return is_held_elsewhere(job_, members_, chains_, activated_, shard);
}

bool Cluster::is_replica(uint32_t shard, uint32_t slice) const {
  return sim::is_replica(chains_, shard, slice);
}

} // namespace troupe::sim
