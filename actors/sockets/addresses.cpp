#include "actors/sockets/addresses.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

namespace troupe {
namespace {

void set(int descriptor, int level, int option, int value) {
  ::setsockopt(descriptor, level, option, &value, sizeof value);
}

} // namespace

std::optional<SocketAddress> SocketAddress::of_number(const std::string& host,
                                                      uint16_t port) {
  SocketAddress result;
  sockaddr_in four{};
  sockaddr_in6 six{};
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    std::memcpy(&result.storage_, &four, sizeof four);
    result.size_ = sizeof four;
  } else if (::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    std::memcpy(&result.storage_, &six, sizeof six);
    result.size_ = sizeof six;
  } else {
    return std::nullopt;
  }
  return result;
}

std::optional<SocketAddress> SocketAddress::find(const std::string& host,
                                                 uint16_t port) {
  if (auto number = of_number(host, port))
    return number;
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const auto digits = std::to_string(port);
  for (auto family : {AF_INET, AF_INET6}) {
    wanted.ai_family = family;
    if (::getaddrinfo(host.c_str(), digits.c_str(), &wanted, &found) != 0)
      continue;
    std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned{found, freeaddrinfo};
    SocketAddress result;
    std::memcpy(&result.storage_, found->ai_addr, found->ai_addrlen);
    result.size_ = found->ai_addrlen;
    return result;
  }
  return std::nullopt;
}

std::optional<SocketAddress>
SocketAddress::of_unix_name(const std::string& name) {
  SocketAddress result;
  sockaddr_un here{};
  if (name.empty() || name.size() + 1 > sizeof here.sun_path)
    return std::nullopt;
  here.sun_family = AF_UNIX;
  std::memcpy(here.sun_path + 1, name.data(), name.size());
  std::memcpy(&result.storage_, &here, sizeof here);
  result.size_ =
    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

SocketAddress SocketAddress::of_socket(int descriptor) {
  SocketAddress result;
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&result.storage_),
                &result.size_);
  return result;
}

SocketAddress SocketAddress::of_peer(int descriptor) {
  SocketAddress result;
  ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&result.storage_),
                &result.size_);
  return result;
}

std::string SocketAddress::host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const auto* bytes = reinterpret_cast<const char*>(&storage_);
  const void* number = bytes
                       + (storage_.ss_family == AF_INET
                            ? offsetof(sockaddr_in, sin_addr)
                            : offsetof(sockaddr_in6, sin6_addr));
  if (storage_.ss_family != AF_INET && storage_.ss_family != AF_INET6)
    return {};
  ::inet_ntop(storage_.ss_family, number, text.data(), text.size());
  return text.data();
}

std::string SocketAddress::network() const {
  if (storage_.ss_family != AF_INET6)
    return host();
  sockaddr_in6 six{};
  std::memcpy(&six, &storage_, sizeof six);
  const auto* bytes = six.sin6_addr.s6_addr;
  const bool four = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
  return {reinterpret_cast<const char*>(bytes), size_t{four ? 16U : 8U}};
}

uint16_t SocketAddress::port() const {
  sockaddr_in four{}; // the port lies in the same place in both versions
  std::memcpy(&four, &storage_, sizeof four);
  return ntohs(four.sin_port);
}

bool SocketAddress::is_any() const {
  const auto text = host();
  return text == "0.0.0.0" || text == "::";
}

int open_socket(const SocketAddress& address) {
  const auto family = address.get()->sa_family;
  const int made = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                            0);
  if (made >= 0 && family != AF_UNIX)
    prepare_tcp(made);
  return made;
}

void prepare_tcp(int descriptor) {
  set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  // A host that vanishes says nothing: it is noticed after some 8 s by the
  // system, and earlier by who looks (cable.hpp).
  set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 7);
}

void accept_speakers(int descriptor) {
  set(descriptor, IPPROTO_TCP, TCP_DEFER_ACCEPT, 2);
}

void send_away(Descriptor connection) {
  const linger at_once{1, 0};
  ::setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &at_once,
               sizeof at_once);
}

Connecting connect_tcp(const std::string& host, uint16_t port,
                       std::chrono::milliseconds deadline) {
  const auto there = SocketAddress::find(host, port);
  if (!there)
    return {{}, "no host of this name"};
  Descriptor made{open_socket(*there)};
  if (!made)
    return {{}, std::strerror(errno)};
  if (::connect(made.get(), there->get(), there->size()) == 0)
    return {std::move(made), {}};
  if (errno != EINPROGRESS)
    return {{}, std::strerror(errno)};
  pollfd connected{made.get(), POLLOUT, 0};
  if (::poll(&connected, 1, static_cast<int>(deadline.count())) != 1)
    return {{}, "no answer"};
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0)
    return {{}, std::strerror(error)};
  return {std::move(made), {}};
}

bool same_user(int descriptor) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0
         && peer.uid == ::geteuid();
}

size_t guests_allowed(size_t most) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return most;
  return std::clamp<size_t>(limit.rlim_cur / 4, std::min<size_t>(16, most),
                            most);
}

Descriptor duplicate(int descriptor) {
  return Descriptor{::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)};
}

std::string own_address_towards(const std::string& host) {
  // Connecting a datagram socket sends nothing; it asks for the way.
  const auto there = SocketAddress::find(host, 1);
  Descriptor made{
    there ? ::socket(there->get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)
          : -1};
  if (!made || ::connect(made.get(), there->get(), there->size()) != 0)
    return {};
  return SocketAddress::of_socket(made.get()).host();
}

std::string first_own_address() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return {};
  std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned{list, freeifaddrs};
  std::string six;
  for (const auto* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_LOOPBACK) != 0
        || (one->ifa_flags & IFF_UP) == 0)
      continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (one->ifa_addr->sa_family == AF_INET) {
      sockaddr_in four{};
      std::memcpy(&four, one->ifa_addr, sizeof four);
      ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
      return text.data();
    }
    sockaddr_in6 found{};
    if (one->ifa_addr->sa_family == AF_INET6)
      std::memcpy(&found, one->ifa_addr, sizeof found);
    if (found.sin6_family != AF_INET6 || !six.empty()
        || IN6_IS_ADDR_LINKLOCAL(&found.sin6_addr))
      continue; // an address of a link alone needs the link's name as well
    ::inet_ntop(AF_INET6, &found.sin6_addr, text.data(), text.size());
    six = text.data();
  }
  return six;
}

} // namespace troupe
