#pragma once

#include "actors/sockets/endpoint.hpp"

#include <chrono>
#include <cstdint>
#include <string>

struct ssl_st;

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
  bool under_way = false; ///< a connection is there, and may still come about

  /// Waiting does not mend it.
  bool hopeless() const {
    return kind == ReachKind::no_such_host || kind == ReachKind::strange
           || kind == ReachKind::refused;
  }
};

/// Whether a connection can be made; as far as that, without certificates.
/// Blocks for `deadline` at most.
Reach reach_host(const Endpoint& where, std::chrono::milliseconds deadline);

/// The same, and whether a packet gets there that is as large as both ends
/// believe the way to take, for which there is `deadline` once more. Whoever
/// listens there has to throw away what comes.
Reach reach_with_large_packets(const Endpoint& where,
                               std::chrono::milliseconds deadline);

/// What it means that a TLS handshake, or waiting for the first word after it,
/// has failed. To be asked at once, on the thread that it failed on.
/// `system_error`: what the system said, 0 where it was OpenSSL.
Reach reach_of_failure(const Endpoint& where, ssl_st* session,
                       int system_error);

/// What it means that nothing came yet over a connection that is there;
/// `shown`: the other side's certificate has been.
Reach reach_of_waiting(const Endpoint& where, bool shown);

} // namespace troupe
