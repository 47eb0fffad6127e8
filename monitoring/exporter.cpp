#include "monitoring/metrics.hpp"
#include "monitoring/page_server.hpp"
#include "monitoring/sample_table.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace troupe {

namespace {

constexpr int backlog = 512;
constexpr auto content_type =
  "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n";

[[noreturn]] void refuse(const std::string& address, const std::string& why) {
  throw std::runtime_error("metrics address " + address + ": " + why);
}

struct Endpoint {
  std::string host; ///< in digits, without brackets
  uint16_t port = 0;
  bool six = false; ///< of IPv6
};

std::string to_string(const Endpoint& endpoint) {
  return (endpoint.six ? '[' + endpoint.host + ']' : endpoint.host) + ':'
         + std::to_string(endpoint.port);
}

/// Web servers understand numbers only; IPv4 goes first.
void resolve(const std::string& host, const std::string& address,
             Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int status = 0;
  for (int family : {AF_INET, AF_INET6}) {
    hints.ai_family = family;
    status = getaddrinfo(host.c_str(), nullptr, &hints, &found);
    if (status != 0)
      continue;
    char text[INET6_ADDRSTRLEN] = {};
    getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr,
                0, NI_NUMERICHOST);
    freeaddrinfo(found);
    endpoint.host = text;
    endpoint.six = family == AF_INET6;
    return;
  }
  refuse(address, std::string{"no address for this host ("}
                    + gai_strerror(status)
                    + "); give an address of this machine, such as "
                      "127.0.0.1:0 or [::1]:0");
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
  auto host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string::npos)
    refuse(address, "an IPv6 address stands in brackets, such as [::1]:0");
  resolve(host, address, out);
  return out;
}

bool leaves_host(const Endpoint& endpoint) {
  return endpoint.host != "::1" && !endpoint.host.starts_with("127.");
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

SocketAddress socket_address(const Endpoint& endpoint) {
  SocketAddress out;
  if (endpoint.six) {
    auto& six = reinterpret_cast<sockaddr_in6&>(out.storage);
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(endpoint.port);
    inet_pton(AF_INET6, endpoint.host.c_str(), &six.sin6_addr);
    out.size = sizeof six;
  } else {
    auto& four = reinterpret_cast<sockaddr_in&>(out.storage);
    four.sin_family = AF_INET;
    four.sin_port = htons(endpoint.port);
    inet_pton(AF_INET, endpoint.host.c_str(), &four.sin_addr);
    out.size = sizeof four;
  }
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
  const int fd = socket(endpoint.six ? AF_INET6 : AF_INET,
                        SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    refuse(address, reason(errno));
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // Nobody is accepted before it has said something, for some seconds.
  const int patience_s = 2;
  setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &patience_s, sizeof patience_s);
  if (endpoint.six)
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  const auto where = socket_address(endpoint);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&where.storage), where.size)
        != 0
      || listen(fd, backlog) != 0) {
    const int error = errno;
    close(fd);
    refuse(address, reason(error));
  }
  return fd;
}

uint16_t port_of(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6
                 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                 : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

} // namespace

struct MetricExporter::Impl {
  Endpoint endpoint;
  std::shared_ptr<SampleTable> table = std::make_shared<SampleTable>();
  std::unique_ptr<PageServer> server;

  Impl(const std::string& address, const MakePageGuard& guard)
    : endpoint(parse(address)) {
    const bool guarded = leaves_host(endpoint);
    auto before = guard ? guard(guarded) : PageGuard{};
    const int listener = listen_at(endpoint, address);
    if (guarded && !guard) {
      close(listener);
      refuse(address, "leaves this host, and there are no certificates; give "
                      "127.0.0.1:0");
    }
    endpoint.port = port_of(listener);
    server = std::make_unique<PageServer>(
      listener,
      WebPage{"/metrics",
              [table = table](std::string_view) {
                return WebAnswer{
                  content_type,
                  prometheus::TextSerializer{}.Serialize(table->Collect())};
              }},
      std::move(before));
  }
};

MetricExporter::MetricExporter(const std::string& address,
                               const MakePageGuard& guard)
  : impl_(std::make_unique<Impl>(address, guard)) {}

MetricExporter::~MetricExporter() = default;

std::string MetricExporter::address() const {
  return to_string(impl_->endpoint);
}

std::string MetricExporter::url(const std::string& path) const {
  return (leaves_host(impl_->endpoint) ? "https://" : "http://") + address()
         + path;
}

void MetricExporter::serve(WebPage page) {
  impl_->server->add(std::move(page));
}

std::function<std::vector<MetricSample>()> MetricExporter::reader() const {
  return [table = impl_->table] {
    std::vector<MetricSample> out;
    for (const auto& family : table->Collect())
      for (const auto& metric : family.metric)
        out.push_back(sample_of(family, metric));
    return out;
  };
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
