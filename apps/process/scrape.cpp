#include "apps/process/scrape.hpp"

#include "actors/certificates/credentials.hpp"
#include "actors/certificates/metrics_token.hpp"
#include "actors/certificates/private_file.hpp"
#include "actors/links/tls_page.hpp"
#include "apps/settings/settings.hpp"
#include "apps/terminal/numbers.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace troupe {
namespace {

constexpr size_t max_bytes = size_t{64} << 20;

[[noreturn]] void refuse(const std::string& line) {
  throw std::runtime_error("not a line of metrics: " + line.substr(0, 200));
}

/// Reads name="value", where \\, \" and \n stand for what they say.
void parse_label(const std::string& line, size_t& at, MetricLabels& labels) {
  const auto equals = line.find("=\"", at);
  if (equals == line.npos)
    refuse(line);
  const auto name = line.substr(at, equals - at);
  std::string value;
  for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
    const bool escaped = line[at] == '\\';
    if (escaped && ++at == line.size())
      refuse(line);
    value += escaped && line[at] == 'n' ? '\n' : line[at];
  }
  if (at == line.size())
    refuse(line);
  labels[name] = value;
  ++at;
  if (at < line.size() && line[at] == ',')
    ++at;
}

ScrapedValue parse_line(const std::string& line) {
  ScrapedValue found;
  auto at = line.find_first_of("{ ");
  if (at == line.npos)
    refuse(line);
  found.name = line.substr(0, at);
  if (line[at] == '{') {
    ++at;
    while (at < line.size() && line[at] != '}')
      parse_label(line, at, found.labels);
    ++at;
  }
  char* end = nullptr;
  const auto* first = line.c_str() + std::min(at, line.size());
  found.value = std::strtod(first, &end);
  if (end == first || found.name.empty())
    refuse(line);
  return found;
}

using Clock = std::chrono::steady_clock;

/// A connection whose every wait ends with the deadline.
class Connection {
public:
  Connection(const addrinfo& where, const std::string& authority,
             Clock::time_point deadline)
    : socket_(
      ::socket(where.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      deadline_(deadline) {
    int failure = 0;
    socklen_t size = sizeof failure;
    if (socket_ < 0)
      failure = errno;
    else if (connect(socket_, where.ai_addr, where.ai_addrlen) != 0
             && (errno != EINPROGRESS || !wait(POLLOUT)
                 || getsockopt(socket_, SOL_SOCKET, SO_ERROR, &failure, &size)
                      != 0))
      failure = errno;
    if (failure != 0)
      why_ = std::strerror(failure);
    else
      stream_ = authority.empty() ? plain_stream(socket_)
                                  : read_page(authority, socket_);
    secret_ = !authority.empty();
  }
  ~Connection() {
    if (socket_ >= 0)
      close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::string& why() const { return why_; } ///< empty: it is there

  /// What comes until the other side ends.
  std::string ask(const std::string& request) {
    std::string answer;
    if (!stream_)
      return answer;
    // A request fits a socket's buffer.
    if (once([&] { return stream_->write(request.data(), request.size()); })
        != static_cast<ssize_t>(request.size())) {
      if (secret_)
        throw std::runtime_error("TLS: " + take_tls_error());
      return answer;
    }
    char part[16 << 10];
    while (
      const auto got = once([&] { return stream_->read(part, sizeof part); })) {
      answer.append(part, static_cast<size_t>(got));
      if (answer.size() > max_bytes)
        throw std::runtime_error("more than 64 MiB of metrics");
    }
    return answer;
  }

private:
  /// Does it once it can be done.
  template <class Move>
  ssize_t once(Move move) {
    for (;;) {
      const auto moved = move();
      if (moved != PageStream::not_now)
        return moved;
      if (!wait(stream_->awaits()))
        throw std::runtime_error("no answer in time");
    }
  }

  bool wait(short what) const {
    const auto rest =
      std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
    pollfd polled{socket_, what, 0};
    if (poll(&polled, 1, static_cast<int>(std::max<int64_t>(0, rest.count())))
        > 0)
      return true;
    errno = ETIMEDOUT;
    return false;
  }

  int socket_;
  Clock::time_point deadline_;
  std::string why_;
  std::unique_ptr<PageStream> stream_;
  bool secret_ = false;
};

/// Errors: std::runtime_error with the reason of the last address tried.
std::string ask_at(const Endpoint& place, const std::string& authority,
                   const std::string& request,
                   std::chrono::milliseconds timeout) {
  addrinfo wish{};
  wish.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const auto port = std::to_string(place.port);
  if (const int failure = getaddrinfo(place.host.c_str(), port.c_str(), &wish,
                                      &first);
      failure != 0)
    throw std::runtime_error(gai_strerror(failure));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found{first,
                                                                 freeaddrinfo};
  std::string why;
  for (const auto* one = first; one != nullptr; one = one->ai_next) {
    Connection connection{*one, authority, Clock::now() + timeout};
    if (connection.why().empty())
      return connection.ask(request);
    why = connection.why();
  }
  throw std::runtime_error(why + "; is the run still going on?");
}

} // namespace

std::vector<ScrapedValue> parse_exposition(const std::string& text) {
  std::vector<ScrapedValue> values;
  for (size_t at = 0; at < text.size();) {
    auto end = text.find('\n', at);
    if (end == text.npos)
      end = text.size();
    const auto line = text.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && line.front() != '#')
      values.push_back(parse_line(line));
  }
  return values;
}

ScrapeCredentials scrape_credentials(const Settings& settings) {
  if (settings.certificates.empty())
    return {};
  return {read_private(settings.certificates + '/' + authority_file, false),
          metrics_token_in(metrics_token_of(settings))};
}

std::vector<ScrapedValue> scrape(const std::string& address,
                                 const ScrapeCredentials& credentials,
                                 std::chrono::milliseconds timeout) {
  const auto what = "metrics at " + address + ": ";
  std::string answer;
  try {
    answer = ask_at(parse_address(address), credentials.authority,
                    "GET /metrics HTTP/1.0\r\nHost: " + address
                      + (credentials.token.empty()
                           ? ""
                           : "\r\nAuthorization: Bearer " + credentials.token)
                      + "\r\n\r\n",
                    timeout);
  } catch (const std::runtime_error& failure) {
    throw std::runtime_error(what + failure.what());
  }
  if (answer.starts_with("HTTP/1.1 401 "))
    throw std::runtime_error(what
                             + "the run asks for another token: copy its "
                               "metrics-token");
  const auto body = answer.find("\r\n\r\n");
  if (body == answer.npos || !answer.starts_with("HTTP/1.")
      || answer.substr(8, 5) != " 200 ")
    throw std::runtime_error(what + "no answer of a troupe run");
  auto values = parse_exposition(answer.substr(body + 4));
  if (std::ranges::none_of(values, [](const ScrapedValue& value) {
        return value.name.starts_with("troupe_");
      }))
    throw std::runtime_error(what + "these are not those of a troupe run");
  return values;
}

} // namespace troupe
