#include "apps/bench/loopback_mesh.hpp"

#include "actors/collectives/stream_reducer.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <tuple>
#include <utility>

namespace troupe {

namespace {

void check(bool holds, const char* what) {
  if (!holds)
    throw std::system_error(errno, std::generic_category(), what);
}

void prepare(int descriptor) {
  tune_stream(descriptor);
  check(fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0, "fcntl");
}

/// Both ends of a connection.
std::pair<int, int> connection(int listener, const sockaddr_in& address) {
  const int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  check(one >= 0, "socket");
  check(connect(one, reinterpret_cast<const sockaddr*>(&address),
                sizeof address)
          == 0,
        "connect");
  const int other = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  check(other >= 0, "accept");
  prepare(one);
  prepare(other);
  return {one, other};
}

} // namespace

LoopbackMesh::LoopbackMesh(uint32_t members)
  : members_(members), descriptors_(size_t{members} * members, -1) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  check(listener >= 0, "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  check(bind(listener, plain, size) == 0 && listen(listener, 1) == 0
          && getsockname(listener, plain, &size) == 0,
        "listen");
  for (uint32_t i = 0; i < members; ++i)
    for (uint32_t j = i + 1; j < members; ++j)
      std::tie(at(i, j), at(j, i)) = connection(listener, address);
  close(listener);
}

LoopbackMesh::~LoopbackMesh() {
  drop();
}

int& LoopbackMesh::at(uint32_t rank, uint32_t peer) {
  return descriptors_[size_t{rank} * members_ + peer];
}

int LoopbackMesh::descriptor(uint32_t rank, uint32_t peer) const {
  return descriptors_[size_t{rank} * members_ + peer];
}

int LoopbackMesh::release(uint32_t rank, uint32_t peer) {
  return std::exchange(at(rank, peer), -1);
}

void LoopbackMesh::keep(uint32_t rank) {
  for (uint32_t i = 0; i < members_; ++i)
    for (uint32_t j = 0; j < members_; ++j)
      if (i != rank && at(i, j) >= 0)
        close(release(i, j));
}

void LoopbackMesh::drop() {
  for (auto& descriptor : descriptors_)
    if (descriptor >= 0)
      close(std::exchange(descriptor, -1));
}

CollectiveResult LoopbackMesh::stream(uint32_t rank, const std::byte* data,
                                      uint64_t size, uint64_t bytes,
                                      std::span<std::byte> incoming,
                                      Reducer::Deadline deadline) {
  if (members_ == 1)
    return {};
  const int next = descriptor(rank, (rank + 1) % members_);
  const int before = descriptor(rank, (rank + members_ - 1) % members_);
  uint64_t sent = 0;
  uint64_t received = 0;
  while (sent < bytes || received < bytes) {
    bool moved = false;
    if (sent < bytes) {
      const auto at = sent % size;
      const auto length =
        std::min({bytes - sent, size - at, uint64_t{incoming.size()}});
      const auto done = send(next, data + at, length, MSG_NOSIGNAL);
      moved = done > 0;
      sent += done > 0 ? static_cast<uint64_t>(done) : 0;
    }
    if (received < bytes) {
      const auto length = std::min<uint64_t>(bytes - received, incoming.size());
      const auto done = recv(before, incoming.data(), length, 0);
      moved = moved || done > 0;
      received += done > 0 ? static_cast<uint64_t>(done) : 0;
      if (done == 0)
        return {CollectiveEnd::aborted, "the connection ended"};
    }
    if (moved)
      continue;
    if (std::chrono::steady_clock::now() > deadline)
      return {CollectiveEnd::late, "the stream stands still"};
    pollfd waits[] = {{before, POLLIN, 0}, {next, POLLOUT, 0}};
    poll(waits, sent < bytes ? 2 : 1, 10);
  }
  return {};
}

} // namespace troupe
