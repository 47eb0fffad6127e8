#pragma once

#include "actors/caf.hpp"
#include "actors/credentials.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace troupe {

/// Makes a system of this configuration speak with actors of other processes
/// over mutual TLS 1.3: CAF's own module for that reads its certificates again
/// for each connection, ends the process where it cannot, and has no deadline
/// for strangers. Certificates are read by then, connections come from a
/// ControlDoor. The middleman has to be loaded already. `tell`: as ControlDoor.
/// Errors: InputError naming the file that cannot be used.
void load_secure_middleman(caf::actor_system_config& config,
                           const Credentials& credentials,
                           std::function<void(const std::string&)> tell = {});

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
