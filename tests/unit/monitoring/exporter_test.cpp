#include "monitoring/metrics.hpp"

#include <arpa/inet.h>
#include <boost/test/unit_test.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <stdexcept>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(exporter_test)

namespace {

uint16_t port_of(const std::string& address) {
  return static_cast<uint16_t>(
    std::stoi(address.substr(address.rfind(':') + 1)));
}

/// A connection to the loopback address of IPv4 or IPv6; -1: there is none.
int connect_to(uint16_t port, int family = AF_INET) {
  const int fd = socket(family, SOCK_STREAM, 0);
  timeval deadline{5, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  six.sin6_addr = in6addr_loopback;
  const int failed =
    family == AF_INET
      ? connect(fd, reinterpret_cast<sockaddr*>(&four), sizeof four)
      : connect(fd, reinterpret_cast<sockaddr*>(&six), sizeof six);
  if (failed == 0)
    return fd;
  close(fd);
  return -1;
}

/// The whole answer of a server at loopback, header and body.
std::string http_get(uint16_t port, const std::string& path,
                     int family = AF_INET) {
  const int fd = connect_to(port, family);
  BOOST_REQUIRE(fd >= 0);
  const auto request = "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n";
  BOOST_REQUIRE_EQUAL(send(fd, request.data(), request.size(), 0),
                      static_cast<ssize_t>(request.size()));
  std::string out;
  char part[4096];
  for (ssize_t n; (n = recv(fd, part, sizeof part, 0)) > 0;)
    out.append(part, static_cast<size_t>(n));
  close(fd);
  return out;
}

/// Series -> value; requires every line to be one that the format knows.
std::map<std::string, std::string> scrape(const MetricExporter& exporter) {
  const bool six = exporter.address().starts_with('[');
  const auto answer = http_get(port_of(exporter.address()), "/metrics",
                               six ? AF_INET6 : AF_INET);
  const auto body = answer.find("\r\n\r\n");
  BOOST_REQUIRE(answer.starts_with("HTTP/1.1 200 OK"));
  BOOST_TEST(answer.find("Content-Type: text/plain") < body);
  std::map<std::string, std::string> out;
  std::istringstream lines{answer.substr(body + 4)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) {
      BOOST_TEST(out.emplace(line, "").second, "twice: " << line);
      continue;
    }
    const auto space = line.rfind(' ');
    BOOST_REQUIRE_MESSAGE(space != std::string::npos, line);
    BOOST_TEST(
      out.emplace(line.substr(0, space), line.substr(space + 1)).second,
      "twice: " << line);
  }
  return out;
}

MetricSample sample(MetricSample::Kind kind, std::string name, double value) {
  MetricSample out;
  out.kind = kind;
  out.name = std::move(name);
  out.help = "help";
  out.value = value;
  return out;
}

/// Sends both standard streams to a file for as long as it lives.
class Silence {
public:
  Silence() {
    std::fflush(nullptr);
    for (int fd : {1, 2}) {
      saved_[fd - 1] = dup(fd);
      dup2(fileno(file_), fd);
    }
  }
  ~Silence() {
    restore();
    std::fclose(file_);
  }
  /// Gives the streams back and returns how many bytes were printed.
  long restore() {
    std::fflush(nullptr);
    for (int fd : {1, 2})
      if (int& saved = saved_[fd - 1]; saved >= 0) {
        dup2(saved, fd);
        close(saved);
        saved = -1;
      }
    return static_cast<long>(lseek(fileno(file_), 0, SEEK_END));
  }

private:
  std::FILE* file_ = std::tmpfile();
  int saved_[2] = {-1, -1};
};

std::string refusal(const std::string& address) {
  try {
    MetricExporter exporter{address};
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

} // namespace

BOOST_AUTO_TEST_CASE(port_0_gives_the_port_really_bound) {
  MetricExporter first{"127.0.0.1:0"};
  MetricExporter second{"localhost:0"};
  BOOST_TEST(first.address().starts_with("127.0.0.1:"));
  BOOST_TEST(second.address().starts_with("127.0.0.1:"));
  BOOST_TEST(port_of(first.address()) != 0);
  BOOST_TEST(port_of(first.address()) != port_of(second.address()));
  const auto other = http_get(port_of(second.address()), "/other");
  BOOST_TEST(other.find(" 404 ") < other.find("\r\n"));
}

BOOST_AUTO_TEST_CASE(a_scrape_merges_attached_and_published_series) {
  MetricRegistry registry;
  MetricExporter exporter{"127.0.0.1:0"};
  exporter.attach("coordinator", registry);
  registry.counter("troupe_steps_committed_total", "Steps.").add(41);
  registry.gauge("troupe_training_loss", "Loss.").set(0.25);
  exporter.publish("worker:0", {sample(MetricSample::Kind::gauge,
                                       "troupe_training_loss", 0.5)});
  auto series = scrape(exporter);
  BOOST_TEST(series["troupe_steps_committed_total{role=\"coordinator\"}"]
             == "41");
  BOOST_TEST(series["troupe_training_loss{role=\"coordinator\"}"] == "0.25");
  BOOST_TEST(series["troupe_training_loss{role=\"worker:0\"}"] == "0.5");
  BOOST_TEST(series.count("# TYPE troupe_steps_committed_total counter"));
  BOOST_TEST(series.count("# HELP troupe_training_loss help"));
  exporter.publish("worker:0",
                   {sample(MetricSample::Kind::counter, "other_total", 1)});
  series = scrape(exporter);
  BOOST_TEST(!series.count("troupe_training_loss{role=\"worker:0\"}"));
  BOOST_TEST(series.count("other_total{role=\"worker:0\"}"));
}

BOOST_AUTO_TEST_CASE(a_histogram_is_served_with_cumulative_buckets) {
  MetricRegistry registry;
  MetricExporter exporter{"127.0.0.1:0"};
  exporter.attach("worker:1", registry);
  auto& histogram = registry.histogram("h", "", {}, {0.1, 1});
  for (double value : {0.0625, 0.5, 4.0})
    histogram.observe(value);
  auto series = scrape(exporter);
  BOOST_TEST(series["h_bucket{role=\"worker:1\",le=\"0.1\"}"] == "1");
  BOOST_TEST(series["h_bucket{role=\"worker:1\",le=\"1\"}"] == "2");
  BOOST_TEST(series["h_bucket{role=\"worker:1\",le=\"+Inf\"}"] == "3");
  BOOST_TEST(series["h_count{role=\"worker:1\"}"] == "3");
  BOOST_TEST(series["h_sum{role=\"worker:1\"}"] == "4.5625");
}

BOOST_AUTO_TEST_CASE(conflicting_kinds_do_not_break_the_scrape) {
  MetricExporter exporter{"127.0.0.1:0"};
  exporter.publish("worker:0", {sample(MetricSample::Kind::counter, "x", 1)});
  exporter.publish("worker:1", {sample(MetricSample::Kind::gauge, "x", 2)});
  auto series = scrape(exporter);
  BOOST_TEST(series.count("# TYPE x counter"));
  BOOST_TEST(series.count("x{role=\"worker:0\"}"));
  BOOST_TEST(!series.count("x{role=\"worker:1\"}"));
  BOOST_TEST(series["troupe_metrics_conflicts_total{role=\"exporter\"}"]
             == "1");
}

BOOST_AUTO_TEST_CASE(a_port_in_use_is_one_line_and_nothing_is_printed) {
  MetricExporter exporter{"127.0.0.1:0"};
  Silence silence;
  const auto why = refusal(exporter.address());
  BOOST_TEST(silence.restore() == 0);
  BOOST_TEST(why
             == "metrics address " + exporter.address()
                  + ": in use; choose another port, or 0 for any");
}

BOOST_AUTO_TEST_CASE(an_address_that_cannot_be_bound_says_why) {
  auto says = [](const std::string& address, const std::string& part) {
    const auto why = refusal(address);
    BOOST_TEST(why.starts_with("metrics address " + address + ": "));
    BOOST_TEST(why.find(part) != std::string::npos, why);
    BOOST_TEST(why.find('\n') == std::string::npos);
  };
  says("127.0.0.1", "not HOST:PORT");
  says(":9100", "not HOST:PORT");
  says("127.0.0.1:", "the port must be a number");
  says("127.0.0.1:65536", "the port must be a number");
  says("127.0.0.1:80x", "the port must be a number");
  says("192.0.2.1:0", "not an address of this machine"); // RFC 5737
  says("::1:0", "brackets");
  says("[::1]", "the port must be a number");
  says("[2001:db8::1]:0", "not an address of this machine"); // RFC 3849
  says("nowhere.invalid:0", "no address for this host");
}

bool without_ipv6() {
  const int fd = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_loopback;
  const bool none =
    fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0;
  if (fd >= 0)
    close(fd);
  if (none)
    BOOST_TEST_MESSAGE("not tested: this kernel has no IPv6");
  return none;
}

// [::1]:0 was "no IPv4 address for this host": the library's web server has no
// IPv6.
BOOST_AUTO_TEST_CASE(an_ipv6_address_is_served_as_any_other) {
  if (without_ipv6())
    return;
  MetricExporter exporter{"[::1]:0"};
  BOOST_TEST(exporter.address().starts_with("[::1]:"));
  exporter.publish("worker:0", {sample(MetricSample::Kind::gauge, "x", 2)});
  BOOST_TEST(scrape(exporter)["x{role=\"worker:0\"}"] == "2");
  const auto port = port_of(exporter.address());
  BOOST_TEST(http_get(port, "/other", AF_INET6).find(" 404 ") < 16u);
  BOOST_TEST(refusal(exporter.address())
             == "metrics address " + exporter.address()
                  + ": in use; choose another port, or 0 for any");
}

BOOST_AUTO_TEST_CASE(whoever_says_nothing_keeps_nobody_from_ipv6) {
  if (without_ipv6())
    return;
  MetricExporter exporter{"[::1]:0"};
  const auto port = port_of(exporter.address());
  std::vector<int> silent(40);
  for (auto& fd : silent)
    BOOST_REQUIRE((fd = connect_to(port, AF_INET6)) >= 0);
  BOOST_TEST(http_get(port, "/metrics", AF_INET6).find(" 200 ") < 16u);
  const std::string noise(1 << 14, 'x');
  send(silent[0], noise.data(), noise.size(), MSG_NOSIGNAL);
  for (auto fd : silent)
    close(fd);
  BOOST_TEST(http_get(port, "/metrics", AF_INET6).find(" 200 ") < 16u);
}

BOOST_AUTO_TEST_CASE(a_port_is_free_again_once_the_exporter_is_gone) {
  std::string address;
  for (int i = 0; i < 3; ++i) {
    MetricExporter exporter{address.empty() ? "127.0.0.1:0" : address};
    address = exporter.address();
    scrape(exporter);
  }
}

BOOST_AUTO_TEST_SUITE_END()
