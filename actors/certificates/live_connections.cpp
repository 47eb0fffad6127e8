#include "actors/certificates/live_connections.hpp"

#include <sys/socket.h>

namespace troupe {

LiveConnections::Entry LiveConnections::enter(const MemberName& member,
                                              int socket) {
  const std::lock_guard guard{mutex_};
  const auto place = sockets_.emplace(member, socket);
  return {this, [own = shared_from_this(), place](void*) {
            const std::lock_guard still{own->mutex_};
            own->sockets_.erase(place);
          }};
}

void LiveConnections::cut(const MemberName& member) {
  const std::lock_guard guard{mutex_};
  auto [at, end] = sockets_.equal_range(member);
  for (; at != end; ++at)
    ::shutdown(at->second, SHUT_RDWR);
}

} // namespace troupe
