#include "actors/control/peer_directory.hpp"

#include "actors/links/link_proxy.hpp"
#include "kernels/base/steady_clock.hpp"

#include <algorithm>

namespace troupe {

std::string local_name(uint64_t job, RoleId role) {
  return "troupe." + std::to_string(job) + '.' + to_string(role);
}

std::vector<Member>
PeerDirectory::find_known(uint64_t job, const std::vector<Member>& members,
                          RoleKind kind) {
  peers_.clear();
  std::vector<Member> unknown;
  for (const auto& member : members) {
    if (member.role.kind != kind)
      continue;
    if (peers_.size() <= member.role.index)
      peers_.resize(member.role.index + 1);
    const auto local = system_.registry().get<caf::strong_actor_ptr>(
      local_name(job, member.role));
    if (local || address(member).empty())
      peers_[member.role.index] = local;
    else if (auto known = connected_.find(address(member));
             known != connected_.end())
      peers_[member.role.index] = known->second.peer;
    else
      unknown.push_back(member);
  }
  round_->missing = unknown.size();
  return unknown;
}

void PeerDirectory::connected(const Member& member,
                              const caf::strong_actor_ptr& peer,
                              const std::shared_ptr<Round>& round) {
  const auto known = connected_.try_emplace(address(member)).first;
  if (round != round_ && known->second.peer)
    return; // the epoch that followed has made one itself, and uses that
  known->second = {member.role, peer};
  if (round != round_) // the next epoch finds it connected
    return;
  peers_[member.role.index] = peer;
  --round->missing;
  settle(round);
}

void PeerDirectory::broken(const Member& member, const std::string& why,
                           const std::shared_ptr<Round>& round) {
  if (round != round_)
    return;
  round_ = nullptr; // one failure is told, and nothing is done
  round->failed(member.role, why);
}

void PeerDirectory::settle(const std::shared_ptr<Round>& round) {
  if (round == round_ && round->missing == 0)
    round->done();
}

MessageLinks::Request PeerDirectory::request(const Fence& fence,
                                             const Member& member) const {
  MessageLinks::Request open;
  open.fence = fence;
  open.name = local_name(fence.job, member.role);
  open.endpoint = member.links;
  open.from = to_string(linking_.role);
  open.to = to_string(member.role);
  open.terms = linking_.terms;
  open.deadline = SteadyClock::now() + deadline;
  return open;
}

uint64_t PeerDirectory::queued_bytes() const {
  uint64_t most = 0;
  for (const auto& peer : peers_)
    if (peer)
      most = std::max(most, troupe::queued_bytes(peer));
  return most;
}

std::optional<RoleId> PeerDirectory::forget(const caf::actor_addr& source) {
  for (auto at = connected_.begin(); at != connected_.end(); ++at)
    if (caf::actor_cast<caf::actor_addr>(at->second.peer) == source) {
      const auto role = at->second.role;
      const bool needed = role.index < peers_.size()
                          && peers_[role.index] == at->second.peer;
      connected_.erase(at);
      return needed ? std::optional{role} : std::nullopt;
    }
  return std::nullopt;
}

} // namespace troupe
