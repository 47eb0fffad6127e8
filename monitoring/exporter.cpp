#include "monitoring/metrics.hpp"
#include "monitoring/page_server.hpp"
#include "monitoring/sample_table.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

constexpr int backlog = 512;

[[noreturn]] void refuse(const std::string& address, const std::string& why) {
  throw std::runtime_error("metrics address " + address + ": " + why);
}

std::string host_port(const std::string& host, uint16_t port) {
  return host + ':' + std::to_string(port);
}

struct Endpoint {
  std::string host; ///< four numbers
  uint16_t port = 0;
};

/// The web server below understands numbers only and has no IPv6.
std::string ipv4_of(const std::string& host, const std::string& address) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int status = getaddrinfo(host.c_str(), nullptr, &hints, &found))
    refuse(address, std::string{"no IPv4 address for this host ("}
                      + gai_strerror(status)
                      + "); give an address of this machine, such as "
                        "127.0.0.1:0");
  char text[INET_ADDRSTRLEN] = {};
  sockaddr_in socket_address;
  std::memcpy(&socket_address, found->ai_addr, sizeof socket_address);
  inet_ntop(AF_INET, &socket_address.sin_addr, text, sizeof text);
  freeaddrinfo(found);
  return text;
}

Endpoint parse(const std::string& address) {
  const auto colon = address.rfind(':');
  Endpoint out;
  const auto* end = address.data() + address.size();
  if (colon == std::string::npos || colon == 0)
    refuse(address, "not HOST:PORT; give for example 127.0.0.1:0");
  const auto [rest, error] = std::from_chars(address.data() + colon + 1, end,
                                             out.port);
  if (error != std::errc{} || rest != end)
    refuse(address, "the port must be a number from 0 to 65535 (0: any)");
  out.host = ipv4_of(address.substr(0, colon), address);
  return out;
}

sockaddr_in socket_address(const Endpoint& endpoint) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(endpoint.port);
  inet_pton(AF_INET, endpoint.host.c_str(), &out.sin_addr);
  return out;
}

std::string reason(int error) {
  switch (error) {
    case EADDRINUSE:
      return "in use; choose another port, or 0 for any";
    case EADDRNOTAVAIL:
      return "not an address of this machine; give one that is, or "
             "127.0.0.1:0";
    case EACCES:
      return "not permitted; choose a port above 1023, or 0 for any";
    default:
      return std::strerror(error) + std::string{"; choose another address"};
  }
}

/// A socket that listens there.
int listen_at(const Endpoint& endpoint, const std::string& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    refuse(address, reason(errno));
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto where = socket_address(endpoint);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0
      || listen(fd, backlog) != 0) {
    const int error = errno;
    close(fd);
    refuse(address, reason(error));
  }
  return fd;
}

uint16_t port_of(int fd) {
  sockaddr_in bound{};
  socklen_t size = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.sin_port);
}

} // namespace

struct MetricExporter::Impl {
  Endpoint endpoint;
  std::shared_ptr<SampleTable> table = std::make_shared<SampleTable>();
  std::unique_ptr<PageServer> server;

  explicit Impl(const std::string& address) : endpoint(parse(address)) {
    const int listener = listen_at(endpoint, address);
    endpoint.port = port_of(listener);
    server =
      std::make_unique<PageServer>(listener, "/metrics", [table = table] {
        return prometheus::TextSerializer{}.Serialize(table->Collect());
      });
  }
};

MetricExporter::MetricExporter(const std::string& address)
  : impl_(std::make_unique<Impl>(address)) {}

MetricExporter::~MetricExporter() = default;

std::string MetricExporter::address() const {
  return host_port(impl_->endpoint.host, impl_->endpoint.port);
}

void MetricExporter::publish(const std::string& role,
                             std::vector<MetricSample> samples) {
  impl_->table->publish(role, std::move(samples));
}

void MetricExporter::attach(const std::string& role,
                            const MetricRegistry& registry) {
  impl_->table->attach(role, registry);
}

} // namespace troupe
