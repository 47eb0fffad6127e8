#include "actors/sockets/addresses.hpp"
#include "actors/sockets/descriptor.hpp"
#include "actors/sockets/endpoint.hpp"
#include "apps/chaos/fault_proxy.hpp"
#include "apps/chaos/proxied_link.hpp"

#include <boost/test/unit_test.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

using namespace troupe;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(fault_proxy)

namespace {

constexpr timeval patience{10, 0};

Descriptor dialled(const std::string& to) {
  const auto at = *parse_endpoint(to);
  const auto address = SocketAddress::of_number(at.host, at.port);
  Descriptor out{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  BOOST_REQUIRE(::connect(out.get(), address->get(), address->size()) == 0);
  ::setsockopt(out.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return out;
}

void put(const Descriptor& to, const std::string& text) {
  BOOST_REQUIRE(::send(to.get(), text.data(), text.size(), MSG_NOSIGNAL)
                == static_cast<ssize_t>(text.size()));
}

/// Nothing: the other side has ended, or reset, the connection.
std::optional<std::string> take(const Descriptor& from, size_t size) {
  std::string out(size, '\0');
  if (::recv(from.get(), out.data(), size, MSG_WAITALL)
      != static_cast<ssize_t>(size))
    return std::nullopt;
  return out;
}

/// Who comes to it.
Descriptor accepted(const Descriptor& listener) {
  pollfd come{listener.get(), POLLIN, 0};
  BOOST_REQUIRE(::poll(&come, 1, 10'000) == 1);
  Descriptor out{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  ::setsockopt(out.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return out;
}

/// A link from worker:0 to ps:0 through a proxy.
struct Linked {
  FaultProxy proxy{7};
  Descriptor listener = listen_here();
  Descriptor worker;
  Descriptor shard;

  Linked() {
    worker = dialled(proxy.address());
    put(worker,
        "worker:0 ps:0 127.0.0.1 "
          + std::to_string(SocketAddress::of_socket(listener.get()).port())
          + '\n');
    shard = accepted(listener);
    exchange();
  }

  void exchange() {
    put(worker, "there");
    BOOST_TEST(take(shard, 5).value_or("") == "there");
    put(shard, "and back");
    BOOST_TEST(take(worker, 8).value_or("") == "and back");
  }
};

} // namespace

BOOST_AUTO_TEST_CASE(a_proxy_passes_on_what_both_sides_say_and_their_end) {
  Linked it;
  it.exchange();
  it.worker.reset();
  BOOST_TEST(!take(it.shard, 1));
}

BOOST_AUTO_TEST_CASE(a_link_that_stalls_passes_all_of_it_later) {
  Linked it;
  for (auto kind :
       {ChaosKind::stall, ChaosKind::one_way, ChaosKind::throttle}) {
    std::atomic<bool> over{false};
    bool done = false;
    std::thread strike{[&] {
      done = it.proxy.strike(kind, "ps:0", 60ms, 5'000ms);
      over = true;
    }};
    while (!over)
      it.exchange();
    strike.join();
    BOOST_TEST(done);
  }
}

BOOST_AUTO_TEST_CASE(a_link_that_says_little_is_struck_once_it_does) {
  Linked it;
  for (auto kind : {ChaosKind::stall, ChaosKind::one_way, ChaosKind::throttle,
                    ChaosKind::flip}) {
    std::atomic<bool> over{false};
    bool done = false;
    std::thread strike{[&] {
      done = it.proxy.strike(kind, "ps:0", 20ms, 10'000ms);
      over = true;
    }};
    // One way alone, and seldom.
    while (!over) {
      std::this_thread::sleep_for(45ms);
      put(it.worker, "there");
      BOOST_TEST(take(it.shard, 5).has_value());
    }
    strike.join();
    BOOST_TEST(done);
  }
}

BOOST_AUTO_TEST_CASE(a_flipped_bit_is_one_of_what_passes) {
  Linked it;
  std::string there(1'000, 'x');
  bool done = false;
  std::thread strike{[&] {
    done = it.proxy.strike(ChaosKind::flip, "worker:0", 0ms, 10'000ms);
  }};
  int changed = 0;
  for (int i = 0; i < 1'000 && changed == 0; ++i)
    for (const auto& [from, to] :
         {std::pair{&it.worker, &it.shard}, std::pair{&it.shard, &it.worker}}) {
      put(*from, there);
      const auto got = take(*to, there.size()).value_or("");
      BOOST_REQUIRE(got.size() == there.size());
      for (size_t at = 0; at < got.size(); ++at)
        changed += got[at] != there[at] ? 1 : 0;
    }
  strike.join();
  BOOST_TEST(done);
  BOOST_TEST(changed == 1);
}

BOOST_AUTO_TEST_CASE(what_role_and_coordinator_say_comes_late) {
  FaultProxy proxy{7, {"worker:0", "ps:1"}};
  const auto addresses = proxy.control_addresses();
  const auto door = control_proxy_of("ps:1", addresses.c_str());
  BOOST_TEST(door != control_proxy_of("worker:0", addresses.c_str()));
  BOOST_TEST(control_proxy_of("ps:0", addresses.c_str()).empty());
  BOOST_TEST(control_proxy_of("ps:1", nullptr).empty());
  const auto role = dialled(door); // and waits, for nobody knows where to
  put(role, "hello");
  const auto listener = listen_here();
  const auto at = address_of(listener);
  proxy.lead_to(at);
  const auto coordinator = accepted(listener);
  BOOST_TEST(take(coordinator, 5).value_or("") == "hello");
  put(coordinator, "welcome");
  BOOST_TEST(take(role, 7).value_or("") == "welcome");
  BOOST_TEST(!proxy.strike(ChaosKind::stall, "ps:1", 10ms, 50ms)); // no link
  std::atomic<bool> over{false};
  bool done = false;
  std::thread strike{[&] {
    done = proxy.strike(ChaosKind::slow_control, "ps:1", 400ms, 5'000ms);
    over = true;
  }};
  auto slowest = 0ms;
  while (!over) {
    const auto begin = std::chrono::steady_clock::now();
    put(role, "there");
    BOOST_TEST(take(coordinator, 5).value_or("") == "there");
    slowest = std::max(slowest,
                       std::chrono::duration_cast<std::chrono::milliseconds>(
                         std::chrono::steady_clock::now() - begin));
  }
  strike.join();
  BOOST_TEST(done);
  BOOST_TEST((slowest >= 99ms));
}

BOOST_AUTO_TEST_CASE(roles_are_refused_while_the_coordinator_is_away) {
  FaultProxy proxy{7, {"worker:0"}};
  const auto to = control_proxy_of("worker:0",
                                   proxy.control_addresses().c_str());
  const auto door = *parse_endpoint(to);
  const auto address = *SocketAddress::of_number(door.host, door.port);
  auto listener = listen_here();
  const auto port = SocketAddress::of_socket(listener.get()).port();
  proxy.lead_to(address_of(listener));
  const auto role = dialled(to);
  auto coordinator = accepted(listener);
  const auto becomes = [&](bool open) {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (listens(address) != open && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(5ms);
    return listens(address) == open;
  };
  listener = Descriptor{};
  coordinator = Descriptor{};
  BOOST_TEST(!take(role, 1));
  BOOST_TEST(becomes(false));
  listener = listen_here(port);
  BOOST_TEST(becomes(true));
}

BOOST_AUTO_TEST_CASE(who_has_no_link_or_says_nothing_cannot_be_struck) {
  Linked it;
  BOOST_TEST(!it.proxy.strike(ChaosKind::stall, "worker:3", 10ms, 50ms));
  for (auto kind : {ChaosKind::one_way, ChaosKind::flip})
    BOOST_TEST(!it.proxy.strike(kind, "worker:0", 10ms, 100ms));
}

BOOST_AUTO_TEST_SUITE_END()
