#pragma once

#include "actors/collectives/stream_reducer.hpp"

#include <arpa/inet.h>
#include <boost/test/unit_test.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::test {

/// Two ends of a real TCP connection over loopback.
inline std::pair<int, int> connected_pair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  BOOST_REQUIRE_EQUAL(::bind(listener, generic, length), 0);
  BOOST_REQUIRE_EQUAL(::listen(listener, 1), 0);
  BOOST_REQUIRE_EQUAL(::getsockname(listener, generic, &length), 0);
  const int one = ::socket(AF_INET, SOCK_STREAM, 0);
  BOOST_REQUIRE_EQUAL(::connect(one, generic, length), 0);
  const int other = ::accept(listener, nullptr, nullptr);
  BOOST_REQUIRE(other >= 0);
  ::close(listener);
  return {one, other};
}

using Sockets = std::vector<std::unique_ptr<LinkSocket>>;

/// What each of so many members holds: a socket to each other.
inline std::vector<Sockets> full_mesh(uint32_t members) {
  std::vector<Sockets> mesh(members);
  for (auto& sockets : mesh)
    sockets.resize(members);
  for (uint32_t a = 0; a < members; ++a)
    for (uint32_t b = 0; b < a; ++b) {
      const auto [one, other] = connected_pair();
      mesh[a][b] = std::make_unique<LinkSocket>(one);
      mesh[b][a] = std::make_unique<LinkSocket>(other);
      tune_stream(mesh[a][b]->descriptor());
      tune_stream(mesh[b][a]->descriptor());
    }
  return mesh;
}

/// Runs `body(rank)` for all members at once, each in a thread.
inline void at_once(uint32_t members,
                    const std::function<void(uint32_t)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(members);
  for (uint32_t rank = 0; rank < members; ++rank)
    threads.emplace_back(body, rank);
  for (auto& thread : threads)
    thread.join();
}

inline Reducer::Deadline in_a_while() {
  return std::chrono::steady_clock::now() + std::chrono::seconds{60};
}

} // namespace troupe::test
