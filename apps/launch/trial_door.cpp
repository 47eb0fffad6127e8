#include "apps/launch/trial_door.hpp"

#include "actors/sockets/addresses.hpp"
#include "actors/sockets/endpoint.hpp"
#include "kernels/base/error.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace troupe {

TrialDoor::TrialDoor(const std::string& host) {
  constexpr int crowd = 1024;
  const auto address = SocketAddress::of_number(host, 0);
  if (!address)
    throw InputError(host + " is no address in digits");
  socket_.reset(open_socket(*address));
  if (!socket_ || ::bind(socket_.get(), address->get(), address->size()) != 0
      || ::listen(socket_.get(), crowd) != 0)
    throw InputError(host + " is no address of this host ("
                     + std::strerror(errno) + ")");
  at_ =
    to_string(Endpoint{host, SocketAddress::of_socket(socket_.get()).port()});
  porter_ = std::thread{[door = socket_.get()] {
    constexpr std::chrono::milliseconds rest{50};
    pollfd visitor{door, POLLIN, 0};
    for (;;) {
      ::poll(&visitor, 1, -1);
      const Descriptor one{::accept4(door, nullptr, nullptr, SOCK_CLOEXEC)};
      if (one || errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
        continue;
      if (errno == EINVAL || errno == EBADF)
        return;                          // it is shut
      std::this_thread::sleep_for(rest); // no descriptor is free, or no memory
    }
  }};
}

TrialDoor::~TrialDoor() {
  ::shutdown(socket_.get(), SHUT_RD); // wakes the porter
  porter_.join();
}

} // namespace troupe
