#pragma once

#include "actors/certificates/certificate_desk.hpp"
#include "actors/certificates/credentials.hpp"
#include "actors/certificates/tls_context.hpp"
#include "actors/wire/caf.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// Initialises CAF's type tables once per process.
void init_actor_types();

/// CAF's configuration as this project needs it: mutual TLS or no network at
/// all, no automatic connections, no configuration file, work sharing instead
/// of polling thieves. A connection to another host that takes nothing for
/// `patience` ends.
class ActorConfig : public caf::actor_system_config {
public:
  /// Errors: InputError naming the file that cannot be used.
  explicit ActorConfig(
    const Credentials& credentials,
    std::chrono::milliseconds patience = std::chrono::milliseconds{3'000});

  /// What all connections of the process show; null: there are none.
  const std::shared_ptr<TlsContext>& tls() const { return tls_; }

  /// Who signs certificates here: a coordinator with an authority's key; null:
  /// nobody does.
  const std::shared_ptr<CertificateDesk>& desk() const { return desk_; }

private:
  std::shared_ptr<TlsContext> tls_;
  std::shared_ptr<CertificateDesk> desk_;
};

/// Publishes `whom` over mutual TLS at HOST:PORT (port 0: any) and returns the
/// bound HOST:PORT.
/// Errors: InputError ("127.0.0.1:5000: in use; …").
std::string publish(caf::actor_system& system,
                    const caf::strong_actor_ptr& whom,
                    const std::string& address);

/// What one gets that may have to wait.
struct Waiting {
  Credentials credentials{}; ///< without: certificates are not told apart
  /// What stands in the way, after a second or two, and when that changes.
  std::function<void(const std::string& line)> tell{};
  /// Asked after each try in vain; true: nobody will come any more.
  std::function<bool()> over{};
  /// The coordinator is on its way where nobody listens, as one that reads its
  /// data: whoever started this one ends it else. That time does not count.
  bool comes = false;
};

/// Connects to the actor at HOST:PORT, or at the first of several with commas
/// that answers, trying again until `deadline_ms` have passed; with credentials
/// not where waiting does not help. Null: `waiting` is over.
/// Errors: InputError naming the address and what stands in the way.
caf::strong_actor_ptr connect(caf::actor_system& system,
                              const std::string& address, uint64_t deadline_ms,
                              const Waiting& waiting = {});

} // namespace troupe
