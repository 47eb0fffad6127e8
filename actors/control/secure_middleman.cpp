#include "actors/control/secure_middleman.hpp"

#include "actors/control/control_door.hpp"
#include "actors/control/secure_stream.hpp"
#include "actors/error_line.hpp"
#include "kernels/error.hpp"

#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/middleman_actor_impl.hpp>
#include <caf/io/network/acceptor_impl.hpp>
#include <caf/io/network/interfaces.hpp>

#include <csignal>
#include <optional>
#include <set>

namespace troupe {
namespace {

constexpr std::chrono::seconds publish_deadline{10};

namespace io = caf::io;
namespace net = caf::io::network;

net::default_multiplexer& sockets_of(caf::actor_system& system) {
  return static_cast<net::default_multiplexer&>(system.middleman().backend());
}

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
                std::shared_ptr<VettedConnections> vetted,
                std::shared_ptr<IoLoop> loop, Door door)
    : doorman(net::accept_hdl_from_socket(signal)),
      acceptor_(sockets, signal, std::move(vetted)),
      loop_(std::move(loop)),
      door_(std::move(door)),
      host_(door_->host()),
      port_(door_->port()) {}

  ~SecureDoorman() override { close(); }

  bool new_connection() override {
    auto connection = acceptor_.take();
    if (detached())
      return false;
    auto& sockets = acceptor_.backend();
    auto scribe = caf::make_counted<SecureScribe>(sockets,
                                                  std::move(connection), false);
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
    loop_->post([door = door_] { door->open(); });
  }

  std::string addr() const override { return host_; }
  uint16_t port() const override { return port_; }
  void add_to_loop() override { acceptor_.activate(this); }
  void remove_from_loop() override { acceptor_.passivate(); }

private:
  void close() {
    if (door_)
      loop_->post([door = std::move(door_)] {});
    door_ = nullptr;
  }

  VettedAcceptor acceptor_;
  std::shared_ptr<IoLoop> loop_;
  Door door_;
  std::string host_;
  uint16_t port_;
};

class SecureMiddlemanActor : public io::middleman_actor_impl {
public:
  SecureMiddlemanActor(caf::actor_config& config, caf::actor broker,
                       std::shared_ptr<const TlsContext> tls,
                       std::shared_ptr<IoLoop> loop, ControlDoor::Tell tell)
    : middleman_actor_impl(config, std::move(broker)),
      tls_(std::move(tls)),
      loop_(std::move(loop)),
      tell_(std::move(tell)) {}

  const char* name() const override { return "secure_middleman"; }

protected:
  caf::expected<io::scribe_ptr> connect(const std::string& host,
                                        uint16_t port) override {
    auto made = net::new_tcp_connection(host, port);
    if (!made)
      return std::move(made.error());
    Descriptor socket{*made};
    net::nonblocking(socket.get(), true);
    prepare_control(socket.get());
    auto session = tls_->open(socket.get(), true);
    if (!session)
      return caf::sec::cannot_connect_to_node;
    return caf::make_counted<SecureScribe>(
      sockets_of(system()),
      VettedConnection{std::move(socket), std::move(session)}, true);
  }

  caf::expected<io::doorman_ptr> open(uint16_t port, const char* address,
                                      bool) override {
    const auto vetted = std::make_shared<VettedConnections>();
    try {
      auto door = std::make_shared<ControlDoor>(
        *loop_, tls_, address == nullptr ? "0.0.0.0" : address, port, vetted,
        tell_);
      return caf::make_counted<SecureDoorman>(sockets_of(system()),
                                              vetted->take_signal(), vetted,
                                              loop_, std::move(door));
    } catch (const InputError& refusal) {
      return caf::make_error(caf::sec::cannot_open_port, refusal.what());
    }
  }

private:
  std::shared_ptr<const TlsContext> tls_;
  std::shared_ptr<IoLoop> loop_;
  ControlDoor::Tell tell_;
};

/// CAF knows modules by number; in this place it would look for its own.
class SecureMiddleman : public caf::actor_system::module {
public:
  SecureMiddleman(caf::actor_system& system,
                  std::shared_ptr<const TlsContext> tls, ControlDoor::Tell tell)
    : system_(system), tls_(std::move(tls)), tell_(std::move(tell)) {}

  void start() override {
    // OpenSSL writes to sockets of peers that may have gone.
    struct sigaction now {};
    if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
      std::signal(SIGPIPE, SIG_IGN);
    loop_ = std::make_shared<IoLoop>();
    actor_ = system_.spawn<SecureMiddlemanActor, caf::detached + caf::hidden>(
      system_.middleman().named_broker<io::basp_broker>("BASP"), tls_, loop_,
      tell_);
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

private:
  caf::actor_system& system_;
  std::shared_ptr<const TlsContext> tls_;
  ControlDoor::Tell tell_;
  std::shared_ptr<IoLoop> loop_;
  io::middleman_actor actor_;
};

SecureMiddleman& module_of(const caf::actor_system& system) {
  return reinterpret_cast<SecureMiddleman&>(system.openssl_manager());
}

} // namespace

void load_secure_middleman(caf::actor_system_config& config,
                           const Credentials& credentials,
                           std::function<void(const std::string&)> tell) {
  config.module_factories.emplace_back(
    [tls = std::make_shared<const TlsContext>(credentials),
     tell = std::move(tell)](
      caf::actor_system& system) -> caf::actor_system::module* {
      return new SecureMiddleman(system, tls, tell); // the system owns it
    });
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
