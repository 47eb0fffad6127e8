#pragma once

#include "actors/certificates/credentials.hpp"
#include "actors/sockets/endpoint.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

/// How far one gets on the way to a coordinator.
enum class ReachKind : uint8_t {
  answers,       ///< somebody of the job is there
  no_such_host,  ///< the name is not known; waiting does not help
  unknown_yet,   ///< the name could not be looked up just now
  not_listening, ///< the host is there, and nobody listens
  silent,        ///< nothing came back: no way, or a firewall
  strange,       ///< it shows a certificate of another authority
  refused,       ///< it does not take ours
  no_member,     ///< something else than a coordinator listens there
};

/// A verdict and its reason.
struct Reach {
  ReachKind kind = ReachKind::answers;
  std::string line; ///< what stands in the way, and what to do; without a name

  /// Waiting does not mend it.
  bool hopeless() const {
    return kind == ReachKind::no_such_host || kind == ReachKind::strange
           || kind == ReachKind::refused;
  }
};

/// Whether a connection can be made; as far as that, without certificates.
/// Blocks for `deadline` at most.
Reach reach_host(const Endpoint& where, std::chrono::milliseconds deadline);

/// The same, and whether either side takes the other's certificate.
Reach reach_member(const Endpoint& where, const Credentials& credentials,
                   std::chrono::milliseconds deadline);

} // namespace troupe
