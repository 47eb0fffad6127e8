#include "tests/sim/replica_watch.hpp"

#include "tests/sim/oracle.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace troupe::sim {

void ReplicaWatch::heard(uint32_t process, const Applied& applied, bool left) {
  if (applied.fence.epoch < epoch_) // of before a rollback, say
    return;
  if (applied.owner.kind == RoleKind::shard) {
    const auto tail = tails_.find(process);
    if (tail == tails_.end() || applied.fence.epoch != epoch_ || left)
      return;
    tail->second = std::max(tail->second, applied.version);
  } else {
    auto& version = versions_[process];
    version = std::max(version, applied.version);
  }
  auto all = ~uint64_t{0};
  for (auto member : members_)
    all = std::min(all, versions_[member]);
  for (const auto& [tail, version] : tails_)
    all = std::min(all, version);
  if (!members_.empty())
    committed_ = std::max(committed_, all);
}

/// Word of a step may come after the rollback that undid it.
void ReplicaWatch::counted(uint64_t step,
                           const std::function<bool(uint32_t)>& alive) const {
  if (step <= committed_ || rolled_back_)
    return;
  for (auto member : members_)
    if (const auto has = versions_.find(member);
        alive(member) && (sealed_.empty() || sealed_.contains(member))
        && (has == versions_.end() || has->second < step))
      throw Violation("I4", "step " + std::to_string(step)
                              + " counts as committed; not all replicas have "
                                "said that they have it");
}

void ReplicaWatch::heard(uint32_t process, const Sealed& sealed) {
  if (sealed.fence.epoch <= epoch_ || sealed.role.kind != RoleKind::worker)
    return;
  versions_[process] = sealed.slices.empty() ? sealed.version
                                             : sealed.slices.front().newest;
  sealed_.insert(process);
}

void ReplicaWatch::begin(const Activate& activation) {
  epoch_ = activation.fence.epoch;
  members_.clear();
  sealed_.clear();
  tails_.clear();
  for (const auto& member : activation.members) {
    const auto process = static_cast<uint32_t>(std::stoul(member.links));
    if (member.role.kind == RoleKind::worker)
      members_.push_back(process);
    for (const auto& chain : activation.chains)
      if (member.role.kind == RoleKind::shard && !chain.replicas.empty()
          && chain.replicas.back() == member.role.index)
        tails_[process] = 0;
  }
}

/// Of a member that has died, and is there again before that is known, what
/// the process before it had counts.
bool ReplicaWatch::began(const Activate& activation, bool dense_reduced) {
  const auto before = std::exchange(members_, {});
  begin(activation);
  uint64_t newest = 0;
  for (auto member : members_)
    newest = std::max(newest, versions_[member]);
  if (activation.version > newest && !activation.rollback)
    throw Violation(
      "I4", "epoch " + std::to_string(epoch_) + " begins with version "
              + std::to_string(activation.version) + ", which nobody has");
  const bool gone = newest < committed_;
  // A chain may have been lost, or not have finished a step.
  const bool right = activation.rollback
                       ? gone || dense_reduced
                       : dense_reduced && activation.version >= committed_
                           && activation.version + 1 == newest;
  if (activation.version < newest && !right)
    throw Violation(
      "I2", "epoch " + std::to_string(epoch_) + " begins with version "
              + std::to_string(activation.version) + "; a member has version "
              + std::to_string(newest) + ", and " + std::to_string(committed_)
              + " is committed");
  if (!activation.rollback) {
    if (!dense_reduced)
      count_survivors(before);
    return false;
  }
  rolled_back_ = true;
  for (auto member : members_)
    versions_[member] = activation.version;
  committed_ = activation.version;
  return gone || !dense_reduced;
}

/// What all have that were in the epoch before is committed; newcomers take it.
void ReplicaWatch::count_survivors(const std::vector<uint32_t>& before) {
  auto all = ~uint64_t{0};
  for (auto member : members_)
    if (std::ranges::find(before, member) != before.end())
      all = std::min(all, versions_[member]);
  if (all != ~uint64_t{0})
    committed_ = std::max(committed_, all);
}

} // namespace troupe::sim
