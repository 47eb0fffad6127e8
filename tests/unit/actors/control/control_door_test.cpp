#include "actors/control/control_door.hpp"
#include "actors/sockets/addresses.hpp"
#include "tests/unit/actors/links/link_party.hpp"

#include <boost/test/unit_test.hpp>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <fstream>
#include <future>
#include <iomanip>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace troupe;

namespace control_door {
namespace {

/// A socket that is connected to the door; waiting for it gives up after 20 s.
Descriptor connected(uint16_t port) {
  const auto address = SocketAddress::of_number("127.0.0.1", port);
  Descriptor made{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  timeval deadline{20, 0};
  ::setsockopt(made.get(), SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
  if (::connect(made.get(), address->get(), address->size()) != 0)
    made.reset();
  return made;
}

/// Whether the other side ends the connection.
bool is_let_go(const Descriptor& socket) {
  char bytes[64];
  ssize_t got = 0;
  while ((got = ::recv(socket.get(), bytes, sizeof bytes, 0)) > 0) {
  }
  return got == 0 || errno == ECONNRESET;
}

/// Connections that this host's system holds at a port, accepted or not. The
/// other side may think so of more: who was answered and said nothing is
/// forgotten without a word.
size_t held_at(uint16_t port) {
  constexpr std::string_view established = "01";
  constexpr std::string_view close_wait = "08";
  std::ifstream table{"/proc/self/net/tcp"};
  std::ostringstream at;
  at << ':' << std::hex << std::uppercase << std::setw(4) << std::setfill('0')
     << port;
  size_t out = 0;
  std::string number;
  std::string own;
  std::string peer;
  std::string state;
  for (std::string line; std::getline(table, line);) {
    std::istringstream{line} >> number >> own >> peer >> state;
    if (own.ends_with(at.str())
        && (state == established || state == close_wait))
      ++out;
  }
  return out;
}

struct Client {
  Descriptor socket;
  TlsSession session;
};

/// Connects and greets as TLS does; tells whether the handshake came to its
/// end on this side.
bool greet(Client& client, const TlsContext& tls, uint16_t port) {
  client.socket = connected(port);
  client.session = tls.open(client.socket.get(), true);
  return SSL_do_handshake(client.session.get()) == 1;
}

struct Bench {
  Bench()
    : own(std::make_shared<const TlsContext>(test::job("own"))),
      vetted(std::make_shared<VettedConnections>()),
      signal(vetted->take_signal()),
      door(std::make_unique<ControlDoor>(loop, own, "127.0.0.1", 0, vetted,
                                         [this](const std::string&,
                                                const std::string& why) {
                                           const std::lock_guard guard{lock};
                                           refused = why;
                                         })) {
    loop.post([this] { door->open(); });
  }
  ~Bench() {
    std::promise<void> ended;
    loop.post([&] {
      door.reset();
      ended.set_value();
    });
    ended.get_future().wait();
  }

  /// The next who is let in; nothing within 20 s.
  std::optional<VettedConnection> next() const {
    pollfd watched{signal.get(), POLLIN, 0};
    ::poll(&watched, 1, 20'000);
    return vetted->take();
  }

  uint16_t port() const { return door->port(); }

  IoLoop loop;
  std::shared_ptr<const TlsContext> own;
  std::shared_ptr<VettedConnections> vetted;
  Descriptor signal;
  std::unique_ptr<ControlDoor> door;
  std::mutex lock;
  std::string refused; ///< why the newest stranger was
};

/// How many connections, of two ends each, this process may still open.
size_t connections_allowed(size_t most) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return std::min<size_t>(most, limit.rlim_cur / 4);
}

} // namespace
} // namespace control_door

BOOST_FIXTURE_TEST_SUITE(control_door, Bench)

BOOST_AUTO_TEST_CASE(a_member_is_let_in_and_is_heard_by_whoever_takes_it) {
  Client member;
  BOOST_REQUIRE(greet(member, *own, port()));
  BOOST_REQUIRE(SSL_write(member.session.get(), "hello", 5) == 5);
  const auto taken = next();
  BOOST_REQUIRE(taken.has_value());
  char bytes[8] = {};
  pollfd readable{taken->socket.get(), POLLIN, 0};
  BOOST_REQUIRE(::poll(&readable, 1, 20'000) == 1);
  BOOST_TEST(SSL_read(taken->session.get(), bytes, sizeof bytes) == 5);
  BOOST_TEST(std::string{bytes} == "hello");
}

BOOST_AUTO_TEST_CASE(whoever_has_another_authority_is_not_let_in) {
  const TlsContext other{test::job("strange")};
  Client stranger;
  greet(stranger, other, port());
  BOOST_TEST(is_let_go(stranger.socket));
  BOOST_TEST(test::soon([&] {
    const std::lock_guard guard{lock};
    return !refused.empty();
  }));
  Client member; // comes after
  BOOST_REQUIRE(greet(member, *own, port()));
  BOOST_TEST(next().has_value());
  BOOST_TEST(!vetted->take().has_value());
}

BOOST_AUTO_TEST_CASE(who_says_nothing_or_half_a_hello_is_let_go) {
  const auto silent = connected(port());
  const auto half = connected(port());
  BOOST_REQUIRE(::send(half.get(), "\x16\x03\x01\x02", 4, MSG_NOSIGNAL) == 4);
  const auto noise = connected(port());
  BOOST_REQUIRE(::send(noise.get(), "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL)
                == 16);
  for (const auto* one : {&noise, &silent, &half})
    BOOST_TEST(is_let_go(*one));
}

BOOST_AUTO_TEST_CASE(members_come_in_through_a_crowd_of_the_silent) {
  std::vector<Descriptor> crowd;
  const auto most = connections_allowed(3000);
  for (size_t i = 0; i < most; ++i)
    crowd.push_back(connected(port()));
  for (int i = 0; i < 20; ++i) {
    Client member;
    BOOST_REQUIRE(greet(member, *own, port()));
    BOOST_REQUIRE(next().has_value());
    crowd.push_back(connected(port()));
  }
  BOOST_TEST(test::soon([&] { return held_at(port()) == 0; }));
}

BOOST_AUTO_TEST_CASE(a_thousand_members_who_come_at_once_are_let_in) {
  constexpr size_t threads = 8;
  const auto each = connections_allowed(1000) / threads;
  std::vector<std::vector<Client>> clients(threads);
  std::vector<size_t> greeted(threads);
  {
    std::vector<std::jthread> crowd;
    for (size_t t = 0; t < threads; ++t)
      crowd.emplace_back([&, t] {
        for (size_t i = 0; i < each; ++i)
          greeted[t] += greet(clients[t].emplace_back(), *own, port()) ? 1 : 0;
      });
  }
  std::vector<VettedConnection> taken;
  for (size_t i = 0; i < each * threads; ++i) {
    auto one = next();
    BOOST_REQUIRE(one.has_value());
    taken.push_back(std::move(*one));
  }
  for (auto count : greeted)
    BOOST_TEST(count == each);
}

BOOST_AUTO_TEST_SUITE_END()
