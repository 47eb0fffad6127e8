#include "tests/sim/cluster.hpp"

#include <algorithm>

// That no lease is lost as long as a replica that had it is there (I2).

namespace troupe::sim {
namespace {

/// Whoever has died may have ended the epoch; nobody else can tell.
bool all_alive(const Runtime& runtime, const std::vector<uint32_t>& members) {
  return std::ranges::all_of(members, [&](uint32_t process) {
    return runtime.alive(process);
  });
}

} // namespace

/// Some replica that a slice had when its newest version was read is still
/// there: no more than f have failed.
bool Cluster::survives(uint32_t slice) const {
  const auto& read = read_.at(slice);
  return std::ranges::any_of(read.replicas, [this](const auto& replica) {
    auto found = processes_.find(replica.first);
    return found != processes_.end() && found->second == replica.second;
  });
}

/// No replica that the slice had in the newest epoch has lost its memory since.
bool Cluster::remembered(uint32_t slice) const {
  return std::ranges::all_of(memories_.at(slice), [this](const auto& x) {
    auto known = members_.find({RoleKind::shard, x.first});
    return known != members_.end() && known->second.memories == x.second;
  });
}

/// The tail says that each of its slices has it.
void Cluster::note_applied(const LeaseApplied& applied) {
  periods_.heard(applied);
  if (applied.fence.epoch != activated_ || proposed_ != activated_
      || left_ == activated_ || !all_alive(runtime_, active_))
    return;
  for (const auto& chain : chains_)
    if (!chain.replicas.empty() && chain.replicas.back() == applied.shard.index)
      acknowledged_[chain.slice].insert(applied.lease);
}

/// Of rows that run free: those of the steps that are over. What a tail has
/// beyond is computed again by whoever has the step under way.
void Cluster::note_applied(const Applied& applied) {
  if (!scenario_.free_rows || applied.fence.epoch != activated_
      || proposed_ != activated_ || left_ == activated_
      || !all_alive(runtime_, active_))
    return;
  const auto steps = replicas_.committed();
  const LeaseSet over{steps * job_.options.virtual_ranks, {}};
  for (const auto& chain : chains_)
    if (acknowledged_[chain.slice].floor() < over.floor())
      acknowledged_[chain.slice] = over;
}

/// What every slice had is there still, or more has failed than may.
void Cluster::check_leases_of(const Activate& activation) {
  auto consumed = acknowledged_.front();
  for (const auto& set : acknowledged_)
    consumed = intersection(consumed, set);
  uint64_t lost = 0;
  std::optional<LeaseSet> everywhere;
  for (const auto& head : activation.slices) {
    const LeaseSet has{head.lease_floor,
                       {head.leases_above.begin(), head.leases_above.end()}};
    everywhere = everywhere ? intersection(*everywhere, has) : has;
    const auto gone = lacking(consumed, has);
    const bool kept = remembered(head.slice)
                      || (read_.contains(head.slice) && survives(head.slice));
    if (gone > 0 && kept)
      throw Violation("I2", "epoch " + std::to_string(activation.fence.epoch)
                              + " begins without " + std::to_string(gone)
                              + " leases of slice " + std::to_string(head.slice)
                              + " that were consumed");
    beyond_ = beyond_ || !kept; // some may be lost that nobody heard of here
    lost = std::max(lost, gone);
    auto& acknowledged = acknowledged_[head.slice];
    acknowledged = intersection(acknowledged, has);
  }
  // Another coordinator can miss no more than the journal had counted.
  if (std::exchange(heard_term_, activation.fence.term) != activation.fence.term
      && everywhere)
    lost = counted_[heard_term_]
           - std::min(counted_[heard_term_], everywhere->size());
  lost_leases_ += lost;
}

} // namespace troupe::sim
