#include "actors/links/listener.hpp"

#include "actors/sockets/addresses.hpp"
#include "kernels/base/error.hpp"

#include <openssl/crypto.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace troupe {
namespace {

constexpr int backlog = 512;
constexpr int accepts_per_turn = 32;
constexpr size_t max_guests = 256;
constexpr auto guest_patience = std::chrono::seconds{2};
constexpr auto breath = std::chrono::milliseconds{100};

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
  const auto bound = SocketAddress::of_socket(tcp_door_.get());
  host_ = bound.host();
  port_ = bound.port();
}

LinkListener::~LinkListener() {
  loop_.unwatch(tcp_watch_);
  loop_.unwatch(local_watch_);
  loop_.cancel(pause_);
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
  for (int i = 0; i < accepts_per_turn; ++i) {
    Descriptor made{
      ::accept4(door.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (made) {
      admit(std::move(made), local);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS
        || errno == ENOMEM) {
      if (!guests_.empty()) {
        drop(guests_.begin(), "its descriptor is needed");
        continue;
      }
      // The door would call again at once, and in vain.
      on_stranger_(std::string{"cannot accept: "} + std::strerror(errno));
      loop_.rearm(watch, 0);
      loop_.cancel(pause_);
      pause_ = loop_.at(IoLoop::Clock::now() + breath, [this] {
        loop_.rearm(tcp_watch_, EPOLLIN);
        loop_.rearm(local_watch_, EPOLLIN);
      });
    }
    return;
  }
}

void LinkListener::admit(Descriptor made, bool local) {
  if (guests_.size() >= max_guests_)
    drop(guests_.begin(), "too many at the door");
  TlsSession session;
  std::string address = options_.unix_name;
  if (local) {
    if (!same_user(made.get())) {
      on_stranger_("another user of this machine");
      return;
    }
  } else {
    address = SocketAddress::of_peer(made.get()).host();
    prepare_tcp(made.get());
    session = options_.tls->open(made.get(), false);
    if (!session)
      return; // no memory: whoever it is tries again
  }
  auto guest = guests_.insert(
    guests_.end(), Guest{std::make_unique<Conversation>(
                           loop_, std::make_unique<Handshake>(
                                    std::move(made), std::move(session))),
                         local, std::move(address)});
  guest->conversation->go(IoLoop::Clock::now() + guest_patience,
                          [this, guest](Handshake::State state) {
                            on_greeted(guest, state);
                          });
}

void LinkListener::on_greeted(Guests::iterator guest, Handshake::State state) {
  if (state == Handshake::State::failed) {
    drop(guest, guest->conversation->failure());
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
      && to_string(peer) != hello->from) {
    drop(guest, "it says that it is " + hello->from + ", and its certificate "
                  + to_string(peer));
    return;
  }
  LinkVisitor visitor{std::move(guest->conversation), std::move(*hello),
                      guest->local, guest->address};
  guests_.erase(guest);
  on_visitor_(std::move(visitor));
}

void LinkListener::drop(Guests::iterator guest, const std::string& why) {
  const auto line = guest->address + ": " + why;
  guests_.erase(guest);
  on_stranger_(line);
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
