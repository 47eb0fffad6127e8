#include "actors/control/secure_middleman.hpp"

#include "actors/control/control_door.hpp"
#include "actors/control/secure_stream.hpp"
#include "actors/sockets/addresses.hpp"
#include "actors/sockets/endpoint.hpp"
#include "actors/wire/error_line.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/steady_clock.hpp"

#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/middleman_actor_impl.hpp>
#include <caf/io/network/acceptor_impl.hpp>
#include <caf/io/network/interfaces.hpp>

#include <chrono>
#include <csignal>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <set>

namespace troupe {
namespace {

constexpr std::chrono::seconds publish_deadline{10};
/// The system's own tries come ever later, and the next who asks would wait.
constexpr std::chrono::milliseconds connect_deadline{1'000};

namespace io = caf::io;
namespace net = caf::io::network;

net::default_multiplexer& sockets_of(caf::actor_system& system) {
  return static_cast<net::default_multiplexer&>(system.middleman().backend());
}

/// What is said of peers that were cut off or refused: the first in ten
/// seconds, on standard error. Thread-safe.
class Strangers {
public:
  explicit Strangers(std::string own) : own_(std::move(own)) {}

  void tell(const std::string& where, const std::string& why) {
    const std::lock_guard guard{mutex_};
    ++count_;
    const auto now = SteadyClock::now();
    if (now < quiet_until_)
      return;
    quiet_until_ = now + std::chrono::seconds{10};
    std::cerr << own_ + ": control: " + where + ": " + why + " ("
                   + std::to_string(count_) + " so far)\n";
  }

private:
  std::string own_;
  std::mutex mutex_;
  uint64_t count_ = 0;
  SteadyClock::time_point quiet_until_;
};

/// What all connections of a system share.
struct Shared {
  std::shared_ptr<const TlsContext> tls;
  std::shared_ptr<IoLoop> loop = std::make_shared<IoLoop>();
  std::shared_ptr<KnownNodes> nodes = std::make_shared<KnownNodes>();
  std::shared_ptr<CertificateDesk> desk; ///< null: it signs nothing
  std::chrono::milliseconds
    patience{}; ///< with what another host does not take
  std::shared_ptr<Strangers> strangers;
  std::shared_ptr<PendingConnections> pending =
    std::make_shared<PendingConnections>();
};

/// What CAF's event loop "accepts": whoever is vetted.
class VettedPolicy {
public:
  explicit VettedPolicy(std::shared_ptr<VettedConnections> vetted)
    : vetted_(std::move(vetted)) {}

  bool try_accept(net::native_socket& result, net::native_socket) {
    next_ = vetted_->take();
    result = next_ ? next_->socket.get() : net::invalid_native_socket;
    return next_.has_value();
  }

  VettedConnection take() { return std::move(*next_); }

private:
  std::shared_ptr<VettedConnections> vetted_;
  std::optional<VettedConnection> next_;
};

class VettedAcceptor : public net::acceptor {
public:
  VettedAcceptor(net::default_multiplexer& sockets, net::native_socket signal,
                 std::shared_ptr<VettedConnections> vetted)
    : acceptor(sockets, signal), policy_(std::move(vetted)) {}

  void handle_event(net::operation op) override {
    handle_event_impl(op, policy_);
  }
  VettedConnection take() { return policy_.take(); }

private:
  VettedPolicy policy_;
};

/// A loop's door, which ends where it lives.
using Door = std::shared_ptr<ControlDoor>;

class SecureDoorman : public io::doorman {
public:
  SecureDoorman(net::default_multiplexer& sockets, net::native_socket signal,
                std::shared_ptr<VettedConnections> vetted, Shared shared,
                Door door)
    : doorman(net::accept_hdl_from_socket(signal)),
      acceptor_(sockets, signal, std::move(vetted)),
      shared_(std::move(shared)),
      door_(std::move(door)),
      host_(door_->host()),
      port_(door_->port()) {}

  ~SecureDoorman() override { close(); }

  bool new_connection() override {
    auto connection = acceptor_.take();
    if (detached())
      return false;
    auto& sockets = acceptor_.backend();
    const auto who = to_string(peer_of(connection.session.get())) + " at "
                     + connection.from;
    auto scribe = caf::make_counted<SecureScribe>(
      sockets, std::move(connection),
      SecureScribe::Environment{shared_.nodes, shared_.tls,
                                [strangers = shared_.strangers,
                                 who](const std::string& why) {
                                  strangers->tell(who, why);
                                }});
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    return doorman::new_connection(&sockets, handle);
  }

  void graceful_shutdown() override {
    close();
    acceptor_.graceful_shutdown();
    detach(&acceptor_.backend(), false);
  }

  void launch() override {
    acceptor_.start(this);
    shared_.loop->post([door = door_] { door->open(); });
  }

  std::string addr() const override { return host_; }
  uint16_t port() const override { return port_; }
  void add_to_loop() override { acceptor_.activate(this); }
  void remove_from_loop() override { acceptor_.passivate(); }

private:
  void close() {
    if (door_)
      shared_.loop->post([door = std::move(door_)] {});
    door_ = nullptr;
  }

  VettedAcceptor acceptor_;
  Shared shared_;
  Door door_;
  std::string host_;
  uint16_t port_;
};

class SecureMiddlemanActor : public io::middleman_actor_impl {
public:
  SecureMiddlemanActor(caf::actor_config& config, caf::actor broker,
                       Shared shared)
    : middleman_actor_impl(config, std::move(broker)),
      shared_(std::move(shared)) {}

  const char* name() const override { return "secure_middleman"; }

protected:
  caf::expected<io::scribe_ptr> connect(const std::string& host,
                                        uint16_t port) override {
    const Endpoint where{host, port};
    auto [socket, why] = connect_tcp(host, port, connect_deadline);
    if (!socket)
      return caf::make_error(caf::sec::cannot_connect_to_node, why);
    prepare_control(socket.get(), shared_.patience);
    auto session = shared_.tls->open(socket.get(), true);
    if (!session)
      return caf::sec::cannot_connect_to_node;
    return caf::make_counted<SecureScribe>(
      sockets_of(system()),
      VettedConnection{std::move(socket), std::move(session), host},
      SecureScribe::Environment{
        shared_.nodes, shared_.tls,
        [strangers = shared_.strangers,
         where = to_string(where)](const std::string& why) {
          if (why.starts_with("cut off"))
            strangers->tell(where, why);
        },
        shared_.pending->begin(where)});
  }

  caf::expected<io::doorman_ptr> open(uint16_t port, const char* address,
                                      bool) override {
    const auto vetted = std::make_shared<VettedConnections>();
    try {
      auto door = std::make_shared<ControlDoor>(
        *shared_.loop, shared_.tls, address == nullptr ? "0.0.0.0" : address,
        port, vetted,
        [strangers = shared_.strangers](const std::string& from,
                                        const std::string& why) {
          strangers->tell(from, why);
        },
        shared_.desk, shared_.patience);
      return caf::make_counted<SecureDoorman>(sockets_of(system()),
                                              vetted->take_signal(), vetted,
                                              shared_, std::move(door));
    } catch (const InputError& refusal) {
      return caf::make_error(caf::sec::cannot_open_port, refusal.what());
    }
  }

private:
  Shared shared_;
};

/// CAF knows modules by number; in this place it would look for its own.
class SecureMiddleman : public caf::actor_system::module {
public:
  SecureMiddleman(caf::actor_system& system,
                  std::shared_ptr<const TlsContext> tls,
                  std::shared_ptr<CertificateDesk> desk,
                  std::chrono::milliseconds patience)
    : system_(system) {
    shared_.strangers =
      std::make_shared<Strangers>(to_string(tls->credentials().name));
    shared_.tls = std::move(tls);
    shared_.desk = std::move(desk);
    shared_.patience = patience;
  }

  void start() override {
    // OpenSSL writes to sockets of peers that may have gone.
    struct sigaction now {};
    if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
      std::signal(SIGPIPE, SIG_IGN);
    actor_ = system_.spawn<SecureMiddlemanActor, caf::detached + caf::hidden>(
      system_.middleman().named_broker<io::basp_broker>("BASP"), shared_);
  }

  void stop() override {
    caf::scoped_actor self{system_, true};
    self->send_exit(actor_, caf::exit_reason::kill);
    self->wait_for(actor_);
    actor_ = nullptr; // doors end with their doormen, then the loop
  }

  void init(caf::actor_system_config&) override {}
  id_t id() const override { return openssl_manager; }
  void* subtype_ptr() override { return this; }

  const io::middleman_actor& actor() const { return actor_; }
  PendingConnections& pending() const { return *shared_.pending; }

private:
  caf::actor_system& system_;
  Shared shared_;
  io::middleman_actor actor_;
};

SecureMiddleman& module_of(const caf::actor_system& system) {
  return reinterpret_cast<SecureMiddleman&>(system.openssl_manager());
}

} // namespace

void load_secure_middleman(caf::actor_system_config& config,
                           std::shared_ptr<const TlsContext> tls,
                           std::shared_ptr<CertificateDesk> desk,
                           std::chrono::milliseconds patience) {
  config.module_factories.emplace_back(
    [tls = std::move(tls), desk = std::move(desk),
     patience](caf::actor_system& system) -> caf::actor_system::module* {
      return new SecureMiddleman(system, tls, desk, // the system owns it
                                 patience);
    });
}

std::optional<Reach> how_far(const caf::actor_system& system,
                             const Endpoint& where) {
  return module_of(system).pending().look(where);
}

bool has_secure_middleman(const caf::actor_system& system) {
  return system.has_openssl_manager();
}

caf::actor secure_middleman(const caf::actor_system& system) {
  return caf::actor_cast<caf::actor>(module_of(system).actor());
}

uint16_t publish_securely(caf::actor_system& system,
                          const caf::strong_actor_ptr& whom,
                          const std::string& host, uint16_t port) {
  caf::scoped_actor self{system};
  uint16_t bound = 0;
  std::string why;
  self
    ->request(module_of(system).actor(), publish_deadline, caf::publish_atom_v,
              port, whom, std::set<std::string>{}, host, true)
    .receive([&](uint16_t made) { bound = made; },
             [&](const caf::error& failure) { why = line_of(failure); });
  if (bound == 0)
    throw InputError(why);
  return bound;
}

} // namespace troupe
