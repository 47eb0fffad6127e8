#pragma once

#include "actors/control/secure_middleman.hpp"
#include "actors/links/message_links.hpp"
#include "actors/sockets/endpoint.hpp"
#include "actors/wire/error_line.hpp"
#include "actors/wire/interfaces.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// The name under which a role of this process is found in the registry.
std::string local_name(uint64_t job, RoleId role);

/// The peers of one role: finds those of its own process in the actor system's
/// registry, links to remote ones where the role has links, and else connects
/// to them over mutual TLS; without blocking the actor. A connection is kept
/// until the peer's address changes or forget() is told of its end.
class PeerDirectory {
public:
  /// How this role links to its peers.
  struct Linking {
    std::shared_ptr<MessageLinks> links; ///< null: it does not
    RoleId role;
    MessageLinks::Terms terms;
  };

  explicit PeerDirectory(caf::actor_system& system) : system_(system) {}
  PeerDirectory(caf::actor_system& system, Linking linking)
    : system_(system), linking_(std::move(linking)) {}

  /// Makes all members of `kind` reachable, then calls done(). On the first
  /// failure, or past the deadline of a connection, calls failed(role, line)
  /// once. Peers that are linked are monitored.
  template <class Self, class Done, class Failed>
  void connect(Self* self, const Fence& fence,
               const std::vector<Member>& members, RoleKind kind, Done done,
               Failed failed) {
    auto round = std::make_shared<Round>();
    round->done = std::move(done);
    round->failed = std::move(failed);
    round_ = round;
    for (const auto& member : find_known(fence.job, members, kind))
      if (linking_.links)
        link(self, fence, member, round);
      else
        dial(self, member, round);
    settle(round);
  }

  /// The peer that `source` was is no longer connected.
  /// Errors: nullopt: it was none, or is not needed in this epoch.
  std::optional<RoleId> forget(const caf::actor_addr& source);

  /// Errors: an unknown index gives an invalid handle; sending to it is
  /// harmless.
  template <class Handle>
  Handle at(uint32_t index) const {
    return index < peers_.size() ? caf::actor_cast<Handle>(peers_[index])
                                 : Handle{};
  }

  template <class Handle, class Visit>
  void for_each(Visit visit) const {
    for (const auto& peer : peers_)
      if (peer)
        visit(caf::actor_cast<Handle>(peer));
  }

  /// What waits on the fullest link of all.
  uint64_t queued_bytes() const;

private:
  static constexpr auto deadline = std::chrono::seconds{5};

  struct Round { // one call of connect()
    size_t missing = 0;
    std::function<void()> done;
    std::function<void(RoleId, const std::string&)> failed;
  };
  struct Connected {
    RoleId role;
    caf::strong_actor_ptr peer;
  };

  /// Fills in the peers that are known and returns the others.
  std::vector<Member>
  find_known(uint64_t job, const std::vector<Member>& members, RoleKind kind);
  const std::string& address(const Member& member) const {
    return linking_.links ? member.links : member.endpoint;
  }
  void connected(const Member& member, const caf::strong_actor_ptr& peer,
                 const std::shared_ptr<Round>& round);
  void broken(const Member& member, const std::string& why,
              const std::shared_ptr<Round>& round);
  void settle(const std::shared_ptr<Round>& round);
  MessageLinks::Request request(const Fence& fence, const Member& member) const;

  template <class Self>
  void
  dial(Self* self, const Member& member, const std::shared_ptr<Round>& round) {
    auto where = parse_endpoint(member.endpoint).value_or(Endpoint{});
    self
      ->request(secure_middleman(system_), deadline, caf::connect_atom_v,
                where.host, where.port)
      .then([this, member, round](
              const caf::node_id&, caf::strong_actor_ptr& peer,
              const std::set<std::string>&) { connected(member, peer, round); },
            [this, member, round](const caf::error& why) {
              broken(member, line_of(why), round);
            });
  }

  template <class Self>
  void link(Self* self, const Fence& fence, const Member& member,
            const std::shared_ptr<Round>& round) {
    auto open = request(fence, member);
    open.target = caf::actor_cast<caf::strong_actor_ptr>(self);
    auto handle = caf::actor_cast<caf::actor>(self);
    linking_.links->connect(
      std::move(open),
      [this, self, handle, member, round](const caf::strong_actor_ptr& peer,
                                          const std::string& why) {
        caf::anon_send(
          handle, Completion{[this, self, member, round, peer, why] {
            if (peer) {
              connected(member, peer, round);
              self->monitor(caf::actor_cast<caf::actor_addr>(peer));
            } else {
              broken(member, why, round);
            }
          }});
      });
  }

  caf::actor_system& system_;
  Linking linking_;
  std::shared_ptr<Round> round_; ///< the newest
  std::vector<caf::strong_actor_ptr> peers_;
  std::map<std::string, Connected> connected_; ///< by address
};

} // namespace troupe
