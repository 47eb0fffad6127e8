#pragma once

#include "actors/certificates/tls_context.hpp"
#include "actors/control/reach.hpp"
#include "actors/sockets/endpoint.hpp"
#include "actors/wire/caf.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

class CertificateDesk;

/// Makes a system of this configuration speak with actors of other processes
/// over mutual TLS 1.3: CAF's own module for that reads its certificates again
/// for each connection, ends the process where it cannot, and has no deadline
/// for strangers. Certificates are read by then, connections come from a
/// ControlDoor, and what a member says is held against its certificate. The
/// middleman has to be loaded already. `desk` answers who asks for a
/// certificate; null: nothing is signed here. A connection to another host that
/// takes nothing for `patience` ends.
void load_secure_middleman(caf::actor_system_config& config,
                           std::shared_ptr<const TlsContext> tls,
                           std::shared_ptr<CertificateDesk> desk,
                           std::chrono::milliseconds patience);

/// What the connection to `where` that is being made waits for, or why the last
/// one failed, which is told once; nothing: there is none, or all is well.
std::optional<Reach> how_far(const caf::actor_system& system,
                             const Endpoint& where);

/// Whether the system was made with it.
bool has_secure_middleman(const caf::actor_system& system);

/// Whom to ask to connect.
caf::actor secure_middleman(const caf::actor_system& system);

/// Lets actors of other processes reach `whom` at HOST:PORT (0: any); returns
/// the bound port. Errors: InputError with the system's reason.
uint16_t publish_securely(caf::actor_system& system,
                          const caf::strong_actor_ptr& whom,
                          const std::string& host, uint16_t port);

} // namespace troupe
