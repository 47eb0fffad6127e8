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
  for (const auto& [other, socket] : sockets_)
    if (speaks_for(member, other))
      ::shutdown(socket, SHUT_RDWR);
}

} // namespace troupe
