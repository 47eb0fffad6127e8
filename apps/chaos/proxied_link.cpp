#include "apps/chaos/proxied_link.hpp"

#include "kernels/base/error.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

/// So much passes a throttled link in each turn of the proxy, which then rests.
constexpr size_t slow_bytes = 16 << 10;
constexpr size_t longest_line = 256;
constexpr int knock_ms = 50;
/// How late everything is where control is slow.
constexpr std::chrono::milliseconds lateness{100};

} // namespace

bool LinkStream::may_send() const {
  return begin != end && !stands && (!late || Clock::now() >= not_before);
}

bool ProxiedLink::dial(const SocketAddress& address) {
  Descriptor made{open_socket(address)};
  if (!made
      || (::connect(made.get(), address.get(), address.size()) != 0
          && errno != EINPROGRESS))
    return false;
  ends[1] = std::move(made);
  return true;
}

/// A byte at a time: what follows is not for the proxy.
bool ProxiedLink::introduce() {
  char one = 0;
  ssize_t count = 0;
  while ((count = ::recv(ends[0].get(), &one, 1, 0)) == 1 && one != '\n') {
    line += one;
    if (line.size() > longest_line)
      return false;
  }
  if (count != 1)
    return count < 0 && errno == EAGAIN;
  std::string host;
  uint16_t port = 0;
  std::istringstream{line} >> roles[0] >> roles[1] >> host >> port;
  const auto address = SocketAddress::of_number(host, port);
  return address && dial(*address);
}

ssize_t ProxiedLink::receive(size_t from) {
  auto& stream = streams[from];
  if (stream.begin != stream.end || stream.ended || stream.stands)
    return 0;
  const auto most = stream.slow ? slow_bytes : stream.bytes.size();
  const auto count = ::recv(ends[from].get(), stream.bytes.data(), most, 0);
  if (count < 0)
    return errno == EAGAIN || errno == ENOTCONN ? 0 : -1;
  stream.begin = 0;
  stream.end = static_cast<size_t>(count);
  stream.ended = count == 0;
  stream.passed = stream.passed || count > 0;
  stream.not_before = Clock::now() + lateness;
  return count;
}

bool ProxiedLink::send(size_t from) {
  auto& stream = streams[from];
  const auto to = ends[1 - from].get();
  while (stream.may_send()) {
    const auto count = ::send(to, stream.bytes.data() + stream.begin,
                              stream.end - stream.begin, MSG_NOSIGNAL);
    if (count < 0)
      return errno == EAGAIN || errno == ENOTCONN;
    stream.begin += static_cast<size_t>(count);
  }
  return stream.begin != stream.end || !stream.ended;
}

bool ProxiedLink::waits(size_t from) const {
  char one = 0;
  const auto& stream = streams[from];
  return stream.begin != stream.end
         || ::recv(ends[from].get(), &one, 1, MSG_PEEK) == 1;
}

Descriptor listen_here(uint16_t port) {
  const auto any = SocketAddress::of_number("127.0.0.1", port);
  Descriptor made{open_socket(*any)};
  const int on = 1; // connections of before may linger
  if (!made
      || ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0
      || ::bind(made.get(), any->get(), any->size()) != 0
      || ::listen(made.get(), SOMAXCONN) != 0)
    throw InputError(std::string{"the proxy of links cannot listen: "}
                     + std::strerror(errno));
  return made;
}

bool listens(const SocketAddress& address) {
  Descriptor made{open_socket(address)};
  if (!made)
    return false;
  if (::connect(made.get(), address.get(), address.size()) == 0)
    return true;
  pollfd waited{made.get(), POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof error;
  return errno == EINPROGRESS && ::poll(&waited, 1, knock_ms) == 1
         && ::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0
         && error == 0;
}

std::string address_of(const Descriptor& listener) {
  return "127.0.0.1:"
         + std::to_string(SocketAddress::of_socket(listener.get()).port());
}

} // namespace troupe
