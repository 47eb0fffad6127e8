#pragma once

#include "actors/interfaces.hpp"

#include <caf/openssl/manager.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// HOST:PORT taken apart. Errors: nullopt for anything else.
struct Endpoint {
  std::string host;
  uint16_t port = 0;
};
std::optional<Endpoint> parse_endpoint(const std::string& text);

/// The name under which a role of this process is found in the registry.
std::string local_name(uint64_t job, RoleId role);

/// The peers of one role: finds local ones in the actor system's registry and
/// connects to remote ones over mutual TLS, without blocking the actor. A
/// connection is kept until the peer's endpoint changes.
class PeerDirectory {
public:
  explicit PeerDirectory(caf::actor_system& system) : system_(system) {}

  /// Makes all members of `kind` reachable, then calls done(). On the first
  /// failure, or past the deadline of a connection, calls failed(line) once.
  template <class Self, class Done, class Failed>
  void connect(Self* self, uint64_t job, const std::vector<Member>& members,
               RoleKind kind, Done done, Failed failed) {
    peers_.clear();
    auto missing = std::make_shared<size_t>(0);
    auto broken = std::make_shared<bool>(false);
    std::vector<Member> remote;
    for (const auto& member : members) {
      if (member.role.kind != kind)
        continue;
      if (peers_.size() <= member.role.index)
        peers_.resize(member.role.index + 1);
      if (member.endpoint.empty())
        peers_[member.role.index] =
          system_.registry().template get<caf::strong_actor_ptr>(
            local_name(job, member.role));
      else if (auto known = connected_.find(member.endpoint);
               known != connected_.end())
        peers_[member.role.index] = known->second;
      else
        remote.push_back(member);
    }
    *missing = remote.size();
    if (remote.empty()) {
      done();
      return;
    }
    for (const auto& member : remote) {
      auto where = parse_endpoint(member.endpoint).value_or(Endpoint{});
      self
        ->request(system_.openssl_manager().actor_handle(),
                  std::chrono::seconds{5}, caf::connect_atom_v, where.host,
                  where.port)
        .then(
          [this, member, missing, broken, done](const caf::node_id&,
                                                caf::strong_actor_ptr& peer,
                                                const std::set<std::string>&) {
            connected_[member.endpoint] = peer;
            if (peers_.size() > member.role.index)
              peers_[member.role.index] = peer;
            if (--*missing == 0 && !*broken)
              done();
          },
          [member, broken, failed](const caf::error& why) {
            if (!std::exchange(*broken, true))
              failed(to_string(member.role) + " at " + member.endpoint + ": "
                     + caf::to_string(why));
          });
    }
  }

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

private:
  caf::actor_system& system_;
  std::vector<caf::strong_actor_ptr> peers_;
  std::map<std::string, caf::strong_actor_ptr> connected_;
};

} // namespace troupe
