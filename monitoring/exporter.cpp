#include "monitoring/ipv6_server.hpp"
#include "monitoring/metrics.hpp"
#include "monitoring/sample_table.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <future>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace troupe {

namespace {

using namespace std::chrono_literals;

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

sockaddr_in socket_address(const Endpoint& endpoint) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(endpoint.port);
  inet_pton(AF_INET, endpoint.host.c_str(), &out.sin_addr);
  return out;
}

/// 0, or why this endpoint cannot be bound. The web server does not tell.
int bind_error(const Endpoint& endpoint) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto where = socket_address(endpoint);
  const bool bound =
    bind(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0
    && listen(fd, 1) == 0;
  const int error = bound ? 0 : errno;
  close(fd);
  return error;
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

std::unique_ptr<prometheus::Exposer> serve(const std::string& address,
                                           const Endpoint& endpoint) {
  if (const int error = bind_error(endpoint))
    refuse(address, reason(error));
  try {
    return std::make_unique<prometheus::Exposer>(std::vector<std::string>{
      "listening_ports", to_string(endpoint), "num_threads", "2",
      "request_timeout_ms", "1000"});
  } catch (const std::exception&) {
    // Taken since the probe, or something the web server keeps to itself.
    const int error = bind_error(endpoint);
    refuse(address,
           error ? reason(error) : "the web server did not start; try again");
  }
}

std::unique_ptr<Ipv6Server> serve_ipv6(const std::string& address,
                                       const Endpoint& endpoint,
                                       std::function<std::string()> text) {
  try {
    return std::make_unique<Ipv6Server>(endpoint.host, endpoint.port,
                                        std::move(text));
  } catch (const std::system_error& failure) {
    refuse(address, reason(failure.code().value()));
  }
}

/// Opens a connection and closes it, to wake whoever accepts.
void knock(Endpoint endpoint) {
  if (endpoint.host == "0.0.0.0")
    endpoint.host = "127.0.0.1";
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return;
  const auto where = socket_address(endpoint);
  connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where);
  pollfd writable{fd, POLLOUT, 0};
  poll(&writable, 1, 20);
  close(fd);
}

} // namespace

struct MetricExporter::Impl {
  Endpoint endpoint;
  std::shared_ptr<SampleTable> table = std::make_shared<SampleTable>();
  std::unique_ptr<prometheus::Exposer> exposer; ///< of IPv4
  std::unique_ptr<Ipv6Server> ipv6;

  explicit Impl(const std::string& address) : endpoint(parse(address)) {
    if (endpoint.six) {
      ipv6 = serve_ipv6(address, endpoint, [table = table] {
        std::ostringstream out;
        prometheus::TextSerializer{}.Serialize(out, table->Collect());
        return out.str();
      });
      endpoint.port = ipv6->port();
      return;
    }
    exposer = serve(address, endpoint);
    endpoint.port = static_cast<uint16_t>(exposer->GetListeningPorts().at(0));
    exposer->RegisterCollectable(table);
  }

  /// The web server looks for its stop flag every two seconds, or when a
  /// connection arrives: a run that ends must not wait that long.
  ~Impl() {
    if (!exposer)
      return;
    auto closed = std::async(std::launch::async, [this] { exposer.reset(); });
    while (closed.wait_for(5ms) != std::future_status::ready)
      knock(endpoint);
  }
};

MetricExporter::MetricExporter(const std::string& address)
  : impl_(std::make_unique<Impl>(address)) {}

MetricExporter::~MetricExporter() = default;

std::string MetricExporter::address() const {
  return to_string(impl_->endpoint);
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
