#include "actors/control/control_door.hpp"

#include "actors/control/actor_node.hpp"
#include "actors/sockets/addresses.hpp"
#include "actors/sockets/endpoint.hpp"
#include "kernels/base/error.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace troupe {
namespace {

constexpr int backlog = 1024;
/// Who waits before a door that is seldom open waits in vain.
constexpr int crowded_backlog = 32;
constexpr int accepts_per_turn = 32;
constexpr size_t max_guests = 1024;
constexpr std::chrono::milliseconds longest_patience{10'000};
constexpr auto breath = std::chrono::milliseconds{100};
/// Of looking at who is late: nobody is.
constexpr auto negligible = std::chrono::microseconds{5};

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
  accept_speakers(made.get());
  return made;
}

} // namespace

void prepare_control(int socket, std::chrono::milliseconds patience) {
  prepare_tcp(socket);
  // CAF's shutdown waits until all that is on its way has been taken: of a host
  // that is cut off, for as long as the system tries, a quarter of an hour. And
  // who comes back is not heard before its old connection is gone.
  const bool elsewhere = !is_loopback(SocketAddress::of_peer(socket).host());
  const auto most = elsewhere ? patience : longest_patience;
  const auto max_ms = static_cast<unsigned>(most.count());
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &max_ms, sizeof max_ms);
}

ControlDoor::ControlDoor(IoLoop& loop, std::shared_ptr<const TlsContext> tls,
                         const std::string& host, uint16_t port,
                         std::shared_ptr<VettedConnections> vetted,
                         OnStranger on_stranger,
                         std::shared_ptr<CertificateDesk> desk,
                         std::chrono::milliseconds patience)
  : loop_(loop),
    tls_(std::move(tls)),
    vetted_(std::move(vetted)),
    patience_(patience),
    list_(guests_allowed(max_guests)),
    on_stranger_(std::move(on_stranger)),
    desk_(std::move(desk)) {
  const auto address = SocketAddress::find(host, port);
  if (!address)
    throw InputError("not an address of this machine");
  door_ = listen_at(*address);
  const auto bound = SocketAddress::of_socket(door_.get());
  host_ = bound.host();
  port_ = bound.port();
  bell_->door = this;
}

ControlDoor::~ControlDoor() {
  {
    const std::lock_guard guard{bell_->mutex};
    bell_->door = nullptr;
  }
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
  rest();
  queue(budget_.is_crowded(DoorBudget::Clock::now()));
  settle();
}

/// Returns false when nobody waits any more, or there is no room.
bool ControlDoor::accept_one() {
  const ThreadTime time;
  Descriptor made{
    ::accept4(door_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
  if (!made) {
    if (!is_want_of_room(errno))
      return false;
    if (const auto oldest = list_.room()) {
      drop(*oldest);
      return true;
    }
    pause(IoLoop::Clock::now() + breath);
    return false;
  }
  const auto now = DoorBudget::Clock::now();
  const auto network = SocketAddress::of_peer(made.get()).network();
  if (!budget_.hears(network, now)) {
    send_away(std::move(made));
    budget_.turn_away(time.spent(), now);
    return !budget_.rests_until(now);
  }
  auto& guest = admit(std::move(made));
  guest.cost = time.spent();
  budget_.wait(network, guest.cost, now);
  return true;
}

/// Who says nothing costs no session.
ControlDoor::Guest& ControlDoor::admit(Descriptor made) {
  prepare_control(made.get(), patience_);
  const auto arrival = list_.arrives(GuestList::Clock::now());
  if (arrival.gone)
    drop(*arrival.gone);
  auto& guest = guests_[arrival.id];
  const auto peer = SocketAddress::of_peer(made.get());
  guest.connection = {std::move(made), {}, peer.host()};
  guest.network = peer.network();
  wait_for(arrival.id, guest, EPOLLIN);
  return guest;
}

/// The door would call again at once, and in vain.
void ControlDoor::pause(IoLoop::Clock::time_point until) {
  loop_.rearm(watch_, 0);
  loop_.cancel(pause_);
  pause_ = loop_.at(until, [this] {
    pause_ = 0;
    loop_.rearm(watch_, EPOLLIN);
  });
}

/// How many may wait to be accepted.
void ControlDoor::queue(bool crowded) {
  if (std::exchange(crowded_, crowded) != crowded)
    ::listen(door_.get(), crowded ? crowded_backlog : backlog);
}

/// Where strangers have cost too much.
void ControlDoor::rest() {
  if (const auto until = budget_.rests_until(DoorBudget::Clock::now()))
    pause(*until);
}

void ControlDoor::go_on(Id id) {
  const auto found = guests_.find(id);
  if (found == guests_.end())
    return;
  auto& guest = found->second;
  if (!budget_.hears(guest.network, DoorBudget::Clock::now())) {
    list_.left(id);
    drop(id);
    return;
  }
  list_.spoke(id);
  charge(id, guest);
}

/// Goes on with a guest, whose network pays for it until it belongs to the job.
void ControlDoor::charge(Id id, Guest& guest) {
  const auto network = guest.network;
  const auto before = guest.cost;
  const ThreadTime time;
  if (advance(id, guest)) {
    budget_.refund(network, before, DoorBudget::Clock::now());
    return;
  }
  const auto cost = time.spent();
  budget_.spend(network, cost, DoorBudget::Clock::now());
  if (const auto still = guests_.find(id); still != guests_.end())
    still->second.cost += cost + DoorBudget::beside;
  rest();
}

/// Returns whether it has turned out to belong to the job, and is gone.
bool ControlDoor::advance(Id id, Guest& guest) {
  if (guest.asks)
    return hear(id, guest);
  auto& connection = guest.connection;
  if (!connection.session)
    connection.session = tls_->open(connection.socket.get(), false);
  auto* session = connection.session.get();
  if (session == nullptr) { // there is no memory: whoever it is tries again
    list_.left(id);
    drop(id);
    return false;
  }
  // The queue of errors is the thread's, and all connections share it.
  ERR_clear_error();
  const int result = SSL_do_handshake(session);
  if (result != 1)
    return wait_or_drop(id, guest, result);
  guest.asks = is_petition(session);
  return guest.asks ? hear(id, guest) : let_in(id);
}

bool ControlDoor::let_in(Id id) {
  const auto found = guests_.find(id);
  loop_.unwatch(found->second.watch);
  auto connection = std::move(found->second.connection);
  guests_.erase(found);
  list_.left(id);
  vetted_->put(std::move(connection));
  return true;
}

/// One question, one answer.
bool ControlDoor::hear(Id id, Guest& guest) {
  auto* session = guest.connection.session.get();
  while (!guest.asked) {
    std::array<char, 4096> bytes;
    ERR_clear_error();
    const int got = SSL_read(session, bytes.data(), bytes.size());
    if (got <= 0)
      return wait_or_drop(id, guest, got);
    guest.heard.append(bytes.data(), static_cast<size_t>(got));
    if (guest.heard.size() > longest_petition || !desk_) {
      list_.left(id);
      drop(id);
      return false;
    }
    guest.asked = is_whole(guest.heard);
    if (guest.asked) {
      ask(id, guest);
      return false;
    }
  }
  if (guest.answer.empty()) { // it does not wait for it
    list_.left(id);
    drop(id);
    return false;
  }
  ERR_clear_error();
  const int sent = SSL_write(session, guest.answer.data(),
                             static_cast<int>(guest.answer.size()));
  if (sent <= 0)
    return wait_or_drop(id, guest, sent);
  const bool signed_now = is_granted(guest.answer);
  SSL_shutdown(session);
  list_.left(id);
  drop(id);
  return signed_now;
}

void ControlDoor::ask(Id id, Guest& guest) {
  const auto peer = peer_of(guest.connection.session.get());
  wait_for(id, guest, 0);
  desk_->answer(peer, guest.heard, [bell = bell_, id](const std::string& said) {
    const std::lock_guard guard{bell->mutex};
    if (bell->door)
      bell->door->loop_.post([bell, id, said] {
        if (bell->door) // which ends on this thread
          bell->door->answered(id, said);
      });
  });
}

void ControlDoor::answered(Id id, const std::string& answer) {
  const auto found = guests_.find(id);
  if (found == guests_.end()) // it was too late
    return;
  found->second.answer = answer;
  charge(id, found->second);
}

/// Returns false: it is not known who it is.
bool ControlDoor::wait_or_drop(Id id, Guest& guest, int result) {
  switch (SSL_get_error(guest.connection.session.get(), result)) {
    case SSL_ERROR_WANT_READ:
      wait_for(id, guest, EPOLLIN);
      return false;
    case SSL_ERROR_WANT_WRITE:
      wait_for(id, guest, EPOLLOUT);
      return false;
    default:
      if (const auto why = certificate_trouble(); !why.empty())
        on_stranger_(guest.connection.from, why);
      list_.left(id);
      drop(id);
      return false;
  }
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
  const ThreadTime time;
  for (auto id : list_.late(GuestList::Clock::now()))
    drop(id);
  loop_.cancel(std::exchange(timer_, 0));
  if (const auto next = list_.next_deadline())
    timer_ = loop_.at(*next, [this] {
      timer_ = 0;
      settle();
    });
  if (time.spent() > negligible)
    budget_.turn_away(time.spent(), DoorBudget::Clock::now());
}

} // namespace troupe
