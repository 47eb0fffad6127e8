#pragma once

#include "actors/wire/interfaces.hpp"
#include "strategies/first_links.hpp"
#include "strategies/role_names.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Who is about to join. Processes that want to be a role wait for an answer
/// until its name is free, or known to be a living one's. Owner: the
/// coordinator's actor.
class JoiningDesk {
public:
  using Promise = caf::typed_response_promise<JobInfo>;

  JoiningDesk(const RoleNames::Options& options, uint64_t now_ms)
    : names_(options), told_ms_(now_ms) {}

  void expect(std::set<RoleId> roles, uint64_t until_ms) {
    names_.expect(std::move(roles), until_ms);
  }
  void ask(const Hello& hello, const caf::strong_actor_ptr& sender,
           const Promise& promise, uint64_t now_ms) {
    auto since_ms = now_ms;
    std::erase_if(waiting_, [&](const Asked& x) {
      if (x.sender != sender)
        return false;
      since_ms = x.since_ms; // it asks again
      return true;
    });
    waiting_.push_back({hello, sender, promise, since_ms});
  }
  /// Answers whom it can. `heard(role)`: when it gave its last sign of life;
  /// `admit(role)`: what a role is told whose name is free.
  template <class Heard, class Admit>
  void look(uint64_t now_ms, const Heard& heard, const Admit& admit) {
    for (auto& asked : std::exchange(waiting_, {})) {
      const auto role = asked.hello.role;
      const auto verdict = names_.look(role, process_of(asked.hello),
                                       asked.since_ms, heard(role), now_ms);
      if (verdict.kind == RoleNames::Kind::waits) {
        waiting_.push_back(std::move(asked));
      } else if (verdict.kind == RoleNames::Kind::refused) {
        asked.promise.deliver(
          caf::make_error(caf::sec::invalid_argument, verdict.reason));
      } else {
        names_.claim(role, process_of(asked.hello), now_ms);
        claimants_[role] = caf::actor_cast<caf::actor_addr>(asked.sender);
        asked.promise.deliver(admit(role));
      }
    }
  }
  void joined(const Join& join) {
    names_.joined(join.role, process_of(join));
    claimants_.erase(join.role);
  }
  void gone(RoleId role) { names_.gone(role); }
  /// Returns whether the role that is present was this process.
  bool died(const RoleDied& died) {
    return names_.died(died.role, process_of(died));
  }
  /// A process that had not joined yet is gone.
  void down(const caf::actor_addr& source) {
    std::erase_if(waiting_, [&](const Asked& x) {
      return caf::actor_cast<caf::actor_addr>(x.sender) == source;
    });
    std::erase_if(claimants_, [&](const auto& claim) {
      if (claim.second != source)
        return false;
      names_.claim_ends(claim.first);
      return true;
    });
  }

  /// `counts`: no step has been made yet, and whoever is not reached is alive.
  FirstLinks::Verdict link_lost(const LinkLost& lost, bool counts,
                                uint64_t now_ms) {
    if (counts)
      return first_links_.lost(lost.role, lost.reason, now_ms);
    return {to_string(lost.role) + ": " + lost.reason, {}};
  }
  /// Before the first epoch: a line of who has joined, now and then, where that
  /// changes; else empty.
  std::string line(size_t joined, const std::vector<RoleId>& absent,
                   uint64_t now_ms) {
    constexpr uint64_t period_ms = 2'000;
    if (now_ms < told_ms_ + period_ms || joined == told_ || absent.empty())
      return {};
    told_ms_ = now_ms;
    told_ = joined;
    return std::to_string(joined) + " of "
           + std::to_string(joined + absent.size())
           + " roles have joined, missing: " + to_string(absent);
  }

private:
  struct Asked {
    Hello hello;
    caf::strong_actor_ptr sender;
    Promise promise;
    uint64_t since_ms = 0;
  };

  template <class Message>
  static RoleProcess process_of(const Message& x) {
    return {x.host, x.process};
  }

  RoleNames names_;
  std::vector<Asked> waiting_;
  std::map<RoleId, caf::actor_addr> claimants_; ///< until they join
  FirstLinks first_links_;
  uint64_t told_ms_;
  size_t told_ = 0; ///< how many had joined then
};

} // namespace troupe
