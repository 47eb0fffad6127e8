#include "tests/sim/replica_watch.hpp"

#include "tests/sim/oracle.hpp"

#include <algorithm>
#include <string>

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

void ReplicaWatch::heard(uint32_t process, const Sealed& sealed) {
  if (sealed.fence.epoch > epoch_ && sealed.role.kind == RoleKind::worker)
    versions_[process] = sealed.slices.empty() ? sealed.version
                                               : sealed.slices.front().newest;
}

void ReplicaWatch::begin(const Activate& activation) {
  epoch_ = activation.fence.epoch;
  members_.clear();
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
bool ReplicaWatch::began(const Activate& activation, bool hybrids) {
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
                       ? gone || hybrids
                       : hybrids && activation.version >= committed_
                           && activation.version + 1 == newest;
  if (activation.version < newest && !right)
    throw Violation(
      "I2", "epoch " + std::to_string(epoch_) + " begins with version "
              + std::to_string(activation.version) + "; a member has version "
              + std::to_string(newest) + ", and " + std::to_string(committed_)
              + " is committed");
  if (!activation.rollback)
    return false;
  for (auto member : members_)
    versions_[member] = activation.version;
  committed_ = activation.version;
  return gone || !hybrids;
}

} // namespace troupe::sim
