#include "actors/sockets/addresses.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

/// Two ends of a TCP connection on this host.
struct Pair {
  Pair() {
    const auto here = SocketAddress::of_number("127.0.0.1", 0);
    const Descriptor door{open_socket(*here)};
    BOOST_REQUIRE(::bind(door.get(), here->get(), here->size()) == 0);
    BOOST_REQUIRE(::listen(door.get(), 1) == 0);
    auto made = connect_tcp("127.0.0.1",
                            SocketAddress::of_socket(door.get()).port(), 2s);
    BOOST_REQUIRE(made.socket);
    near = std::move(made.socket);
    for (int tries = 0; tries < 1000 && !far; ++tries)
      far.reset(::accept(door.get(), nullptr, nullptr));
    BOOST_REQUIRE(far);
  }
  Descriptor near, far;
};

/// What comes at an end that waits for it, and errno of a failure.
std::pair<ssize_t, int> received(const Descriptor& end) {
  const timeval patience{2, 0};
  ::setsockopt(end.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char byte = 0;
  const auto got = ::recv(end.get(), &byte, 1, 0);
  return {got, got < 0 ? errno : 0};
}

} // namespace

BOOST_AUTO_TEST_SUITE(addresses)

// A link that is given up has data under way that do not get through, and the
// end of a stream waits behind them: the other side, which hears signs of life,
// would wait for good.
BOOST_AUTO_TEST_CASE(a_reset_overtakes_what_was_sent_before) {
  Pair pair;
  reset_when_closed(pair.near.get());
  BOOST_TEST(::send(pair.near.get(), "x", 1, 0) == 1);
  pair.near.reset();
  std::pair<ssize_t, int> end{1, 0};
  while (end.first > 0) // what had come already
    end = received(pair.far);
  BOOST_TEST(end.first == -1);
  BOOST_TEST(end.second == ECONNRESET);
}

BOOST_AUTO_TEST_CASE(other_connections_end_with_their_stream) {
  Pair pair;
  pair.near.reset();
  BOOST_TEST(received(pair.far).first == 0);
}

BOOST_AUTO_TEST_SUITE_END()
