#include "actors/links/cable.hpp"
#include "actors/sockets/addresses.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

constexpr auto patience = 10s;

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
    const auto deadline = SteadyClock::now() + patience;
    while (!far && SteadyClock::now() < deadline) {
      far.reset(::accept(door.get(), nullptr, nullptr));
      if (!far)
        std::this_thread::sleep_for(1ms);
    }
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

void check_reset(const Descriptor& end) {
  std::pair<ssize_t, int> got{1, 0};
  while (got.first > 0) // what had come already
    got = received(end);
  BOOST_TEST(got.first == -1);
  BOOST_TEST(got.second == ECONNRESET);
}

} // namespace

BOOST_AUTO_TEST_SUITE(addresses)

BOOST_AUTO_TEST_CASE(who_is_sent_away_hears_of_a_reset) {
  Pair pair;
  BOOST_TEST(::send(pair.near.get(), "x", 1, 0) == 1);
  send_away(std::move(pair.near));
  check_reset(pair.far);
}

// Symptom: a shard had given up a link on which large packets got lost, and the
// worker at its other end, which heard signs of life, waited for good. Cause: a
// link is closed when its last owner lets go of it. Until then it was shut down
// alone, and the end of a stream waits behind what does not get through.
BOOST_AUTO_TEST_CASE(a_link_is_reset_though_its_descriptor_stays) {
  Pair pair;
  BOOST_TEST(::send(pair.near.get(), "x", 1, 0) == 1);
  reset_cable(pair.near.get());
  ::shutdown(pair.near.get(), SHUT_RDWR);
  check_reset(pair.far);
  BOOST_TEST(::send(pair.near.get(), "x", 1, MSG_NOSIGNAL) == -1);
}

BOOST_AUTO_TEST_CASE(other_connections_end_with_their_stream) {
  Pair pair;
  pair.near.reset();
  BOOST_TEST(received(pair.far).first == 0);
}

BOOST_AUTO_TEST_CASE(what_a_connection_has_carried_is_told) {
  Pair pair;
  // The beginning of a connection counts as a byte.
  const auto before = cable_counts(pair.near.get())->delivered_bytes;
  BOOST_TEST(::send(pair.near.get(), "four", 4, 0) == 4);
  received(pair.far);
  auto counts = cable_counts(pair.near.get());
  const auto deadline = SteadyClock::now() + patience;
  while (counts->delivered_bytes < before + 4
         && SteadyClock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
    counts = cable_counts(pair.near.get());
  }
  BOOST_TEST(counts->delivered_bytes == before + 4);
  BOOST_TEST(counts->busy_seconds < 1);
  BOOST_TEST(!counts->tries_again);
  int ends[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const Descriptor one{ends[0]};
  const Descriptor other{ends[1]};
  BOOST_TEST(!cable_counts(one.get()));
}

BOOST_AUTO_TEST_CASE(a_cable_stalls_while_nothing_is_acknowledged) {
  const SteadyClock::time_point begin{};
  StalledCable cable;
  CableCounts counts{100, 0, true};
  BOOST_TEST(cable.look(counts, begin) == 0);
  BOOST_TEST(cable.look(counts, begin + 2s) == 2);
  counts.delivered_bytes = 101;
  BOOST_TEST(cable.look(counts, begin + 3s) == 0);
  BOOST_TEST(cable.look(counts, begin + 3'500ms) == 0.5);
  counts.tries_again = false; // it waits for room there
  BOOST_TEST(cable.look(counts, begin + 9s) == 0);
  counts.tries_again = true;
  BOOST_TEST(cable.look(counts, begin + 10s) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
