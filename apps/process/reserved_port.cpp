#include "apps/process/reserved_port.hpp"

#include "actors/sockets/endpoint.hpp"
#include "kernels/base/error.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace troupe {

ReservedPort::ReservedPort(const std::string& host) {
  addrinfo wish{};
  wish.ai_family = AF_UNSPEC;
  wish.ai_socktype = SOCK_STREAM;
  wish.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* first = nullptr;
  if (const int failure = getaddrinfo(host.c_str(), "0", &wish, &first);
      failure != 0)
    throw InputError("address " + host + ": " + gai_strerror(failure));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found{first,
                                                                 freeaddrinfo};
  sockaddr_storage bound{};
  auto* place = reinterpret_cast<sockaddr*>(&bound);
  socklen_t size = sizeof bound;
  const int yes = 1;
  handle_ = socket(first->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle_ < 0
      || setsockopt(handle_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0
      || bind(handle_, first->ai_addr, first->ai_addrlen) != 0
      || getsockname(handle_, place, &size) != 0) {
    const std::string why = std::strerror(errno);
    if (handle_ >= 0)
      close(handle_);
    throw InputError("address " + host + ": " + why);
  }
  const auto port = first->ai_family == AF_INET6
                      ? reinterpret_cast<sockaddr_in6*>(place)->sin6_port
                      : reinterpret_cast<sockaddr_in*>(place)->sin_port;
  address_ = to_string(Endpoint{host, ntohs(port)});
}

ReservedPort::~ReservedPort() {
  close(handle_);
}

} // namespace troupe
