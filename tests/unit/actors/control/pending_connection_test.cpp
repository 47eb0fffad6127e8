// Symptom: a role whose first connection had no answer after a second made
// another one to look why, and so each second: 1,687 connections of 620 roles
// at a coordinator that had not heard of a fifth of them yet.

#include "actors/control/actor_node.hpp"
#include "actors/control/pending_connection.hpp"
#include "actors/sockets/addresses.hpp"
#include "actors/sockets/descriptor.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/steady_clock.hpp"
#include "tests/unit/actors/job_certificates.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/socket.h>

#include <chrono>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(pending_connection)

namespace {

const Endpoint there{"10.0.0.1", 7000};

/// Takes connections as the system does, and says nothing.
struct SilentListener {
  SilentListener()
    : socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    const auto any = *SocketAddress::of_number("127.0.0.1", 0);
    BOOST_REQUIRE(::bind(socket.get(), any.get(), any.size()) == 0);
    BOOST_REQUIRE(::listen(socket.get(), 64) == 0);
    address = to_string(
      Endpoint{"127.0.0.1", SocketAddress::of_socket(socket.get()).port()});
  }

  /// How many have come since the last call.
  size_t connections() const {
    size_t count = 0;
    while (Descriptor{::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC)})
      ++count;
    return count;
  }

  Descriptor socket;
  std::string address;
};

bool is_in(const std::string& words, const std::string& text) {
  return text.find(words) != std::string::npos;
}

} // namespace

BOOST_AUTO_TEST_CASE(it_tells_what_it_waits_for) {
  PendingConnection it{there};
  BOOST_TEST(is_in("10.0.0.1:7000 takes connections and does not answer",
                   it.reach()->line));
  BOOST_TEST(it.reach()->under_way);
  BOOST_TEST(!it.reach()->hopeless());
  it.shown();
  BOOST_TEST(is_in("has shown its certificate", it.reach()->line));
  BOOST_TEST(it.reach()->under_way);
  it.heard();
  BOOST_TEST(!it.reach().has_value());
}

BOOST_AUTO_TEST_CASE(why_it_failed_outlives_it) {
  PendingConnection it{there};
  it.failed([](const Endpoint& where) {
    return Reach{ReachKind::refused, to_string(where) + " refuses"};
  });
  it.ended();
  BOOST_REQUIRE(it.reach().has_value());
  BOOST_TEST(it.reach()->line == "10.0.0.1:7000 refuses");
  BOOST_TEST(it.reach()->hopeless());
  BOOST_TEST(!it.reach()->under_way);
}

BOOST_AUTO_TEST_CASE(one_that_ended_unheard_tells_nothing) {
  PendingConnection it{there};
  it.shown();
  it.ended();
  BOOST_TEST(!it.reach().has_value());
}

BOOST_AUTO_TEST_CASE(of_each_address_the_newest_counts) {
  PendingConnections all;
  BOOST_TEST(!all.look(there).has_value());
  const auto first = all.begin(there);
  first->failed([](const Endpoint&) {
    return Reach{ReachKind::silent, "the first"};
  });
  const auto other = all.begin({"10.0.0.2", 7000});
  BOOST_TEST(all.look(there)->line == "the first");
  BOOST_TEST(!all.look(there).has_value()); // it was told
  const auto next = all.begin(there);
  BOOST_TEST(all.look(there)->under_way);
  BOOST_TEST(all.look(there)->under_way); // and is still
  next->heard();
  BOOST_TEST(!all.look(there).has_value());
  BOOST_TEST(all.look({"10.0.0.2", 7000})->under_way);
}

BOOST_AUTO_TEST_CASE(more_addresses_than_are_remembered_are_no_harm) {
  PendingConnections all;
  std::vector<std::shared_ptr<PendingConnection>> kept;
  for (uint16_t port = 1; port <= 1'000; ++port)
    kept.push_back(all.begin({"10.0.0.1", port}));
  BOOST_TEST(!all.look({"10.0.0.1", 1'000}).has_value());
  for (const auto& one : kept)
    one->ended();
  const auto last = all.begin({"10.0.0.1", 1'000});
  BOOST_TEST(all.look({"10.0.0.1", 1'000})->under_way);
}

// One of them looks whether anybody listens, and ends at once.
BOOST_AUTO_TEST_CASE(who_waits_for_an_answer_makes_no_second_connection) {
  const SilentListener silent;
  ActorConfig config{test::job("own", test::worker(0))};
  caf::actor_system system{config};
  std::vector<std::string> told;
  Waiting waiting{config.tls()->credentials(),
                  [&](const std::string& line) { told.push_back(line); }};
  BOOST_CHECK_EXCEPTION(
    connect(system, silent.address, 3'500, waiting), InputError,
    [&](const InputError& failure) {
      return is_in(silent.address + " takes connections and does not answer",
                   failure.what());
    });
  BOOST_TEST(silent.connections() == 2u);
  BOOST_REQUIRE(told.size() == 1u);
  BOOST_TEST(is_in("does not answer", told.front()));
}

// Symptom: a role that was started again while the coordinator read its data
// gave up after half a minute, and spent a restart.
BOOST_AUTO_TEST_CASE(
  who_knows_that_a_coordinator_comes_waits_until_it_listens) {
  ActorConfig config{test::job("own", test::worker(0))};
  caf::actor_system system{config};
  const auto address = [] {
    const SilentListener listener; // it is gone when this returns
    return listener.address;
  }();
  Waiting waiting{config.tls()->credentials()};
  constexpr uint64_t deadline_ms = 200;
  BOOST_CHECK_THROW(connect(system, address, deadline_ms, waiting), InputError);
  const auto began = SteadyClock::now();
  waiting.over = [&] {
    return SteadyClock::now() - began
           > std::chrono::milliseconds{4 * deadline_ms};
  };
  waiting.comes = true;
  BOOST_TEST(!connect(system, address, deadline_ms, waiting)); // told so
}

BOOST_AUTO_TEST_SUITE_END()
