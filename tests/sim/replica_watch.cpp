#include "tests/sim/replica_watch.hpp"

#include "tests/sim/oracle.hpp"

#include <algorithm>
#include <string>

namespace troupe::sim {

void ReplicaWatch::heard(uint32_t process, const Applied& applied) {
  if (applied.fence.epoch < epoch_) // of before a rollback, say
    return;
  auto& version = versions_[process];
  version = std::max(version, applied.version);
  auto all = ~uint64_t{0};
  for (auto member : members_)
    all = std::min(all, versions_[member]);
  if (!members_.empty())
    committed_ = std::max(committed_, all);
}

void ReplicaWatch::heard(uint32_t process, const Sealed& sealed) {
  if (sealed.fence.epoch > epoch_)
    versions_[process] = sealed.version;
}

/// Of a member that has died, and is there again before that is known, what
/// the process before it had counts.
bool ReplicaWatch::began(const Activate& activation) {
  epoch_ = activation.fence.epoch;
  members_.clear();
  for (const auto& member : activation.members)
    members_.push_back(static_cast<uint32_t>(std::stoul(member.links)));
  uint64_t newest = 0;
  for (auto member : members_)
    newest = std::max(newest, versions_[member]);
  if (activation.version > newest && !activation.rollback)
    throw Violation(
      "I4", "epoch " + std::to_string(epoch_) + " begins with version "
              + std::to_string(activation.version) + ", which nobody has");
  if (activation.version < newest
      && (!activation.rollback || newest >= committed_))
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
  return true;
}

} // namespace troupe::sim
