#include "actors/control/live_connections.hpp"

#include <sys/socket.h>

namespace troupe {

void LiveConnections::add(const MemberName& member, int socket) {
  const std::lock_guard guard{mutex_};
  sockets_.emplace(member, socket);
}

void LiveConnections::remove(const MemberName& member, int socket) {
  const std::lock_guard guard{mutex_};
  auto [at, end] = sockets_.equal_range(member);
  for (; at != end; ++at)
    if (at->second == socket) {
      sockets_.erase(at);
      return;
    }
}

void LiveConnections::cut(const MemberName& member) {
  const std::lock_guard guard{mutex_};
  auto [at, end] = sockets_.equal_range(member);
  for (; at != end; ++at)
    ::shutdown(at->second, SHUT_RDWR);
}

} // namespace troupe
