#include "actors/links/dial.hpp"

#include "actors/certificates/member_name.hpp"
#include "actors/sockets/addresses.hpp"
#include "actors/sockets/endpoint.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>

namespace troupe {
namespace {

constexpr auto pause = std::chrono::milliseconds{50};
constexpr int proxy_deadline_ms = 1'000;
/// The system's own tries come ever later, also once a cable is whole again.
constexpr auto greet_deadline = std::chrono::seconds{2};

std::optional<SocketAddress> address_to_dial(const DialOrder& order) {
  if (order.local)
    return SocketAddress::of_unix_name(order.to.unix_name);
  const auto to = order.proxy.empty()
                    ? Endpoint{order.to.host, order.to.port}
                    : parse_endpoint(order.proxy).value_or(Endpoint{});
  return SocketAddress::of_number(to.host, to.port);
}

/// Tells the proxy, in a line, who dials whom where. It waits until there is a
/// connection, which on a test's own host is there at once.
bool lead_on(int socket, const DialOrder& order) {
  pollfd connected{socket, POLLOUT, 0};
  if (::poll(&connected, 1, proxy_deadline_ms) != 1)
    return false;
  const auto line = order.hello.from + ' ' + order.whom + ' ' + order.to.host
                    + ' ' + std::to_string(order.to.port) + '\n';
  return ::send(socket, line.data(), line.size(), MSG_NOSIGNAL)
         == static_cast<ssize_t>(line.size());
}

} // namespace

Dial::Dial(IoLoop& loop, const TlsContext* tls, DialOrder order,
           std::function<void(Dialed)> then)
  : loop_(loop), tls_(tls), order_(std::move(order)), then_(std::move(then)) {
  pause_ = loop_.at(IoLoop::Clock::now(), [this] { attempt(); });
}

Dial::~Dial() {
  loop_.cancel(pause_);
}

void Dial::attempt() {
  conversation_.reset();
  const auto address = address_to_dial(order_);
  if (!address || (!order_.local && tls_ == nullptr)) {
    fail(address ? "this process has no certificates"
                 : "its address is not a number");
    return;
  }
  Descriptor made{open_socket(*address)};
  if (!made) {
    retry(std::strerror(errno));
    return;
  }
  if (::connect(made.get(), address->get(), address->size()) != 0
      && errno != EINPROGRESS) {
    retry(std::strerror(errno));
    return;
  }
  if (!order_.local && !order_.proxy.empty() && !lead_on(made.get(), order_)) {
    retry("the proxy of links does not answer");
    return;
  }
  if (order_.local && !same_user(made.get())) {
    fail("the socket belongs to another user");
    return;
  }
  TlsSession session;
  if (!order_.local) {
    session = tls_->open(made.get(), true);
    if (!session) {
      retry("no memory for TLS");
      return;
    }
  }
  conversation_ = std::make_unique<Conversation>(
    loop_, std::make_unique<Handshake>(std::move(made), std::move(session)));
  greet();
}

void Dial::greet() {
  std::vector<Descriptor> passed;
  for (const auto& descriptor : order_.passed) // it may greet once more
    passed.push_back(duplicate(descriptor.get()));
  conversation_->handshake().greet(encode(order_.hello), std::move(passed));
  const auto soon = IoLoop::Clock::now() + greet_deadline;
  conversation_->go(std::min<IoLoop::Clock::time_point>(order_.deadline, soon),
                    [this](Handshake::State sent) {
                      if (sent == Handshake::State::failed) {
                        retry(conversation_->failure());
                        return;
                      }
                      const auto peer = conversation_->handshake().peer();
                      if (!order_.local && !speaks_for(peer, order_.whom)) {
                        fail("its certificate is that of " + to_string(peer));
                        return;
                      }
                      conversation_->go(order_.deadline,
                                        [this](Handshake::State state) {
                                          if (state == Handshake::State::failed)
                                            retry(conversation_->failure());
                                          else
                                            on_answer();
                                        });
                    });
}

void Dial::on_answer() {
  auto welcome = decode_welcome(conversation_->handshake().greeting());
  if (!welcome)
    fail("it does not answer as a link does");
  else if (!welcome->refusal.empty())
    fail("refused: " + welcome->refusal);
  else if (welcome->id != order_.to.id)
    fail("another process answers there");
  else
    tell({{}, *welcome, conversation_->release()});
}

void Dial::retry(const std::string& why) {
  last_failure_ = why;
  const auto next = IoLoop::Clock::now() + pause;
  // Whoever announced an endpoint listened there before.
  if (why == std::strerror(ECONNREFUSED)) {
    fail(why + "; has its process died?");
    return;
  }
  if (next >= order_.deadline
      || (conversation_ && conversation_->handshake().hopeless())) {
    fail(why);
    return;
  }
  pause_ = loop_.at(next, [this] { attempt(); });
}

void Dial::fail(const std::string& why) {
  tell({order_.whom + " at " + order_.to.address() + ": " + why, {}, nullptr});
}

void Dial::tell(Dialed outcome) {
  auto then = std::move(then_);
  then_ = nullptr;
  then(std::move(outcome)); // may end this object
}

std::string Dial::waits_for() const {
  return last_failure_.empty() ? "it does not answer" : last_failure_;
}

} // namespace troupe
