#include "actors/links/listener.hpp"

#include "actors/certificates/member_name.hpp"
#include "actors/sockets/addresses.hpp"
#include "kernels/base/error.hpp"

#include <openssl/crypto.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace troupe {
namespace {

constexpr int backlog = 512;
constexpr int crowded_backlog = 32; // who waits before it would wait in vain
constexpr int accepts_per_turn = 32;
constexpr size_t max_guests = 256;
constexpr auto guest_patience = std::chrono::seconds{2};
constexpr auto breath = std::chrono::milliseconds{100};
const std::string too_many = "too many come from there";

bool same_key(const std::string& one, const std::string& other) {
  return one.size() == other.size()
         && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

} // namespace

LinkListener::LinkListener(IoLoop& loop, ListenerOptions options)
  : loop_(loop),
    options_(std::move(options)),
    max_guests_(guests_allowed(max_guests)) {
  auto local = SocketAddress::of_unix_name(options_.unix_name);
  listen_on(local_door_, options_.unix_name, local->get(), local->size());
  if (options_.tls == nullptr)
    return;
  auto address = SocketAddress::find(options_.listen, 0);
  if (!address)
    throw InputError("links: " + options_.listen
                     + " is not an address of this machine");
  listen_on(tcp_door_, options_.listen, address->get(), address->size());
  accept_speakers(tcp_door_.get());
  const auto bound = SocketAddress::of_socket(tcp_door_.get());
  host_ = bound.host();
  port_ = bound.port();
}

LinkListener::~LinkListener() {
  loop_.unwatch(tcp_watch_);
  loop_.unwatch(local_watch_);
  loop_.cancel(pause_);
  loop_.cancel(rest_);
}

void LinkListener::listen_on(Descriptor& door, const std::string& what,
                             const sockaddr* address, socklen_t size) {
  door.reset(::socket(address->sa_family,
                      SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!door || ::bind(door.get(), address, size) != 0
      || ::listen(door.get(), backlog) != 0)
    throw InputError("links: cannot listen on " + what + ": "
                     + std::strerror(errno));
}

void LinkListener::start(
  std::function<void(LinkVisitor)> on_visitor,
  std::function<void(const std::string& why)> on_stranger) {
  on_visitor_ = std::move(on_visitor);
  on_stranger_ = std::move(on_stranger);
  open(local_door_, local_watch_, true);
  if (tcp_door_)
    open(tcp_door_, tcp_watch_, false);
}

void LinkListener::open(Descriptor& door, uint64_t& watch, bool local) {
  watch = loop_.watch(door.get(), EPOLLIN,
                      [this, &door, &watch, local](uint32_t) {
                        accept_some(door, watch, local);
                      });
}

void LinkListener::accept_some(Descriptor& door, uint64_t& watch, bool local) {
  for (int i = 0; i < accepts_per_turn && accept_one(door, watch, local); ++i) {
  }
  rest();
  queue(budget_.is_crowded(DoorBudget::Clock::now()));
}

/// Returns false when nobody waits any more, or there is no room.
bool LinkListener::accept_one(Descriptor& door, uint64_t& watch, bool local) {
  const ThreadTime time;
  Descriptor made{
    ::accept4(door.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
  if (made && local) {
    admit_local(std::move(made));
    return true;
  }
  if (made) {
    admit(std::move(made), time);
    return !budget_.rests_until(DoorBudget::Clock::now());
  }
  if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
    return false;
  if (!guests_.empty()) {
    drop(guests_.begin(), "its descriptor is needed");
    return true;
  }
  // The door would call again at once, and in vain.
  on_stranger_(std::string{"cannot accept: "} + std::strerror(errno));
  loop_.rearm(watch, 0);
  loop_.cancel(pause_);
  pause_ = loop_.at(IoLoop::Clock::now() + breath, [this] {
    loop_.rearm(tcp_watch_, EPOLLIN);
    loop_.rearm(local_watch_, EPOLLIN);
  });
  return false;
}

/// How many may wait to be accepted over TCP.
void LinkListener::queue(bool crowded) {
  if (tcp_door_ && std::exchange(crowded_, crowded) != crowded)
    ::listen(tcp_door_.get(), crowded ? crowded_backlog : backlog);
}

/// Where strangers have cost too much.
void LinkListener::rest() {
  const auto until = budget_.rests_until(DoorBudget::Clock::now());
  if (!until)
    return;
  loop_.rearm(tcp_watch_, 0);
  loop_.cancel(rest_);
  rest_ = loop_.at(*until, [this] {
    rest_ = 0;
    loop_.rearm(tcp_watch_, EPOLLIN);
  });
}

void LinkListener::admit_local(Descriptor made) {
  if (same_user(made.get()))
    add(std::move(made), {}, true, options_.unix_name);
  else
    on_stranger_("another user of this machine");
}

void LinkListener::admit(Descriptor made, const ThreadTime& time) {
  const auto now = DoorBudget::Clock::now();
  const auto peer = SocketAddress::of_peer(made.get());
  const auto network = peer.network();
  if (!budget_.hears(network, now)) {
    send_away(std::move(made));
    on_stranger_(peer.host() + ": " + too_many);
    budget_.turn_away(time.spent(), now);
    return;
  }
  prepare_tcp(made.get());
  auto session = options_.tls->open(made.get(), false);
  if (!session)
    return; // no memory: whoever it is tries again
  const auto guest = add(std::move(made), std::move(session), false,
                         peer.host());
  guest->network = network;
  guest->conversation->let_step(
    [this, guest](Handshake& handshake) { return go_on(guest, handshake); });
  const auto cost = time.spent();
  guest->cost = cost + DoorBudget::beside;
  budget_.spend(network, cost, now);
}

LinkListener::Guests::iterator LinkListener::add(Descriptor made,
                                                 TlsSession session, bool local,
                                                 std::string address) {
  if (guests_.size() >= max_guests_)
    drop(guests_.begin(), "too many at the door");
  auto guest = guests_.insert(
    guests_.end(), Guest{std::make_unique<Conversation>(
                           loop_, std::make_unique<Handshake>(
                                    std::move(made), std::move(session))),
                         local, std::move(address)});
  guest->conversation->go(IoLoop::Clock::now() + guest_patience,
                          [this, guest](Handshake::State state) {
                            on_greeted(guest, state);
                          });
  return guest;
}

Handshake::State LinkListener::go_on(Guests::iterator guest,
                                     Handshake& handshake) {
  if (!budget_.hears(guest->network, DoorBudget::Clock::now()))
    return Handshake::State::failed;
  const ThreadTime time;
  const auto state = handshake.advance();
  const auto cost = time.spent();
  guest->cost += cost + DoorBudget::beside;
  budget_.spend(guest->network, cost, DoorBudget::Clock::now());
  rest();
  return state;
}

void LinkListener::on_greeted(Guests::iterator guest, Handshake::State state) {
  if (state == Handshake::State::failed) {
    const auto& why = guest->conversation->failure();
    drop(guest, why.empty() ? too_many : why);
    return;
  }
  auto hello = decode_hello(guest->conversation->handshake().greeting());
  if (!hello) {
    drop(guest, "it does not greet as a link does");
    return;
  }
  if (hello->revision == link_revision && !same_key(hello->key, options_.key)) {
    drop(guest, "it does not know this process's key");
    return;
  }
  if (const auto peer = guest->conversation->handshake().peer();
      !guest->local && hello->revision == link_revision
      && !speaks_for(peer, hello->from)) {
    drop(guest, "it says that it is " + hello->from + ", and its certificate "
                  + to_string(peer));
    return;
  }
  budget_.refund(guest->network, guest->cost, DoorBudget::Clock::now());
  guest->conversation->let_step(
    [](Handshake& handshake) { return handshake.advance(); });
  LinkVisitor visitor{std::move(guest->conversation), std::move(*hello),
                      guest->local, guest->address};
  guests_.erase(guest);
  on_visitor_(std::move(visitor));
}

void LinkListener::drop(Guests::iterator guest, const std::string& why) {
  const ThreadTime time;
  const auto line = guest->address + ": " + why;
  guests_.erase(guest);
  on_stranger_(line);
  budget_.turn_away(time.spent(), DoorBudget::Clock::now());
}

void LinkListener::refuse(LinkVisitor visitor, const std::string& why) {
  if (refused_.size() >= max_guests)
    refused_.pop_front();
  LinkWelcome answer;
  answer.id = options_.id;
  answer.refusal = why;
  auto place = refused_.insert(refused_.end(), std::move(visitor.conversation));
  (*place)->handshake().greet(encode(answer));
  (*place)->go(IoLoop::Clock::now() + guest_patience,
               [this, place](Handshake::State) { refused_.erase(place); });
}

} // namespace troupe
