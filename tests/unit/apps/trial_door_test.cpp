#include "actors/control/reach.hpp"
#include "actors/sockets/addresses.hpp"
#include "actors/sockets/endpoint.hpp"
#include "apps/launch/trial_door.hpp"

#include <boost/test/unit_test.hpp>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <thread>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

/// Whether a visitor is let in and sent away.
bool is_sent_away(const Descriptor& visitor, int patience_ms) {
  char byte = 0;
  pollfd end{visitor.get(), POLLIN, 0};
  return ::poll(&end, 1, patience_ms) == 1
         && ::recv(visitor.get(), &byte, 1, 0) == 0;
}

} // namespace

BOOST_AUTO_TEST_SUITE(trial_door)

// Symptom: who came once no descriptor had been free stayed for good, as
// everybody after it: the porter had gone.
BOOST_AUTO_TEST_CASE(a_door_is_open_again_once_there_are_descriptors) {
  const TrialDoor door{"127.0.0.1"};
  const auto port = parse_endpoint(door.at())->port;
  const auto first = connect_tcp("127.0.0.1", port, 2s);
  BOOST_REQUIRE(first.socket);
  BOOST_TEST(is_sent_away(first.socket, 10'000));
  const Descriptor visitor{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const auto there = SocketAddress::of_number("127.0.0.1", port);
  rlimit limit{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  auto none = limit;
  none.rlim_cur = 3;
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool came = ::connect(visitor.get(), there->get(), there->size()) == 0;
  std::this_thread::sleep_for(200ms);
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  BOOST_REQUIRE(came);
  BOOST_TEST(is_sent_away(visitor, 10'000));
}

BOOST_AUTO_TEST_CASE(a_large_packet_gets_to_a_door_and_to_a_busy_process) {
  std::optional<TrialDoor> door{"127.0.0.1"};
  const auto at = parse_endpoint(door->at()).value();
  BOOST_TEST((reach_with_large_packets(at, 10s).kind == ReachKind::answers));
  door.reset();
  BOOST_TEST(
    (reach_with_large_packets(at, 10s).kind == ReachKind::not_listening));
  // Nobody accepts what this one's kernel has taken.
  const auto here = SocketAddress::of_number("127.0.0.1", 0);
  const Descriptor busy{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  BOOST_REQUIRE(::bind(busy.get(), here->get(), here->size()) == 0);
  BOOST_REQUIRE(::listen(busy.get(), 8) == 0);
  const auto port = SocketAddress::of_socket(busy.get()).port();
  BOOST_TEST((reach_with_large_packets({"127.0.0.1", port}, 10s).kind
              == ReachKind::answers));
}

BOOST_AUTO_TEST_SUITE_END()
