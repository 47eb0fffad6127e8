#include "actors/control/control_door.hpp"

#include "actors/links/addresses.hpp"
#include "kernels/error.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace troupe {
namespace {

constexpr int backlog = 1024;
constexpr int accepts_per_turn = 32;
constexpr size_t most_guests = 1024;
constexpr auto breath_between_lines = std::chrono::seconds{10};
constexpr auto breath = std::chrono::milliseconds{100};

bool is_want_of_room(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS
         || error == ENOMEM;
}

Descriptor listen_at(const SocketAddress& address) {
  Descriptor made{::socket(address.get()->sa_family,
                           SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  const int on = 1;
  if (made)
    ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!made || ::bind(made.get(), address.get(), address.size()) != 0
      || ::listen(made.get(), backlog) != 0)
    throw InputError(std::strerror(errno));
  return made;
}

} // namespace

void prepare_control(int socket) {
  prepare_tcp(socket);
  // CAF's shutdown waits until all that is on its way has been taken: of a host
  // that is cut off, for as long as the system tries, a quarter of an hour.
  const unsigned most_ms = 10'000;
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof most_ms);
}

ControlDoor::ControlDoor(IoLoop& loop, std::shared_ptr<const TlsContext> tls,
                         const std::string& host, uint16_t port,
                         std::shared_ptr<VettedConnections> vetted, Tell tell)
  : loop_(loop),
    tls_(std::move(tls)),
    vetted_(std::move(vetted)),
    tell_(std::move(tell)),
    list_(guests_allowed(most_guests)) {
  const auto address = SocketAddress::find(host, port);
  if (!address)
    throw InputError("not an address of this machine");
  door_ = listen_at(*address);
  const auto bound = SocketAddress::of_socket(door_.get());
  host_ = bound.host();
  port_ = bound.port();
}

ControlDoor::~ControlDoor() {
  loop_.unwatch(watch_);
  loop_.cancel(timer_);
  loop_.cancel(pause_);
  for (const auto& [id, guest] : guests_)
    loop_.unwatch(guest.watch);
}

void ControlDoor::open() {
  watch_ = loop_.watch(door_.get(), EPOLLIN,
                       [this](uint32_t) { accept_some(); });
}

void ControlDoor::accept_some() {
  for (int i = 0; i < accepts_per_turn && accept_one(); ++i) {
  }
  settle();
}

/// Returns false when nobody waits any more, or there is no room.
bool ControlDoor::accept_one() {
  Descriptor made{
    ::accept4(door_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
  if (!made) {
    if (!is_want_of_room(errno))
      return false;
    if (const auto oldest = list_.room()) {
      drop(*oldest);
      return true;
    }
    pause();
    return false;
  }
  prepare_control(made.get());
  auto session = tls_->open(made.get(), false);
  if (!session)
    return true; // no memory: whoever it is tries again
  const auto arrival = list_.arrives(GuestList::Clock::now());
  if (arrival.gone)
    drop(*arrival.gone);
  auto& guest = guests_[arrival.id];
  guest.connection = {std::move(made), std::move(session)};
  wait_for(arrival.id, guest, EPOLLIN);
  return true;
}

/// The door would call again at once, and in vain.
void ControlDoor::pause() {
  loop_.rearm(watch_, 0);
  loop_.cancel(pause_);
  pause_ = loop_.at(IoLoop::Clock::now() + breath,
                    [this] { loop_.rearm(watch_, EPOLLIN); });
}

void ControlDoor::go_on(Id id) {
  const auto found = guests_.find(id);
  if (found == guests_.end())
    return;
  auto& guest = found->second;
  list_.spoke(id);
  // The queue of errors is the thread's, and all connections share it.
  ERR_clear_error();
  auto* session = guest.connection.session.get();
  const int result = SSL_do_handshake(session);
  if (result == 1) {
    loop_.unwatch(guest.watch);
    auto connection = std::move(guest.connection);
    guests_.erase(found);
    list_.left(id);
    vetted_->put(std::move(connection));
    return;
  }
  switch (SSL_get_error(session, result)) {
    case SSL_ERROR_WANT_READ:
      return wait_for(id, guest, EPOLLIN);
    case SSL_ERROR_WANT_WRITE:
      return wait_for(id, guest, EPOLLOUT);
    default:
      tell_of(guest);
      list_.left(id);
      drop(id);
  }
}

/// Of a handshake that has just failed: whether this side did not know the
/// authority, or the other.
void ControlDoor::tell_of(const Guest& guest) {
  const auto verdict = SSL_get_verify_result(guest.connection.session.get());
  const auto code = ERR_peek_last_error();
  const bool alert = ERR_GET_LIB(code) == ERR_LIB_SSL
                     && ERR_GET_REASON(code) >= SSL_AD_REASON_OFFSET;
  const auto now = IoLoop::Clock::now();
  if (!tell_ || now < quiet_until_ || (verdict == X509_V_OK && !alert))
    return;
  quiet_until_ = now + breath_between_lines;
  tell_("a process on "
        + SocketAddress::of_peer(guest.connection.socket.get()).host()
        + " was turned away, its certificates are not this job's ("
        + (verdict != X509_V_OK ? X509_verify_cert_error_string(verdict)
                                : take_tls_error())
        + "): copy the coordinator's folder of certificates there");
}

void ControlDoor::wait_for(Id id, Guest& guest, uint32_t events) {
  if (guest.watch == 0)
    guest.watch = loop_.watch(guest.connection.socket.get(), events,
                              [this, id](uint32_t) { go_on(id); });
  else if (guest.events != events)
    loop_.rearm(guest.watch, events);
  guest.events = events;
}

void ControlDoor::drop(Id id) {
  const auto found = guests_.find(id);
  if (found == guests_.end())
    return;
  loop_.unwatch(found->second.watch);
  guests_.erase(found);
}

/// Lets go whose time is over, and comes back when the next one's is.
void ControlDoor::settle() {
  for (auto id : list_.late(GuestList::Clock::now()))
    drop(id);
  loop_.cancel(std::exchange(timer_, 0));
  if (const auto next = list_.next_deadline())
    timer_ = loop_.at(*next, [this] {
      timer_ = 0;
      settle();
    });
}

} // namespace troupe
