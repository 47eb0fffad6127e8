#include "actors/control/vetted_connections.hpp"

#include "kernels/base/error.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace troupe {

VettedConnections::VettedConnections() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair)
      != 0)
    throw InputError(std::string{"cannot listen: "} + std::strerror(errno));
  reader_.reset(pair[0]);
  writer_.reset(pair[1]);
  signal_ = pair[0];
}

void VettedConnections::put(VettedConnection connection) {
  const std::lock_guard lock{mutex_};
  const char byte = 1;
  if (waiting_.empty())
    ::send(writer_.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  waiting_.push_back(std::move(connection));
}

std::optional<VettedConnection> VettedConnections::take() {
  const std::lock_guard lock{mutex_};
  if (waiting_.empty())
    return std::nullopt;
  auto first = std::move(waiting_.front());
  waiting_.pop_front();
  char byte = 0;
  if (waiting_.empty())
    ::recv(signal_, &byte, 1, MSG_DONTWAIT);
  return first;
}

} // namespace troupe
