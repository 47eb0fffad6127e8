#include "monitoring/ipv6_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <list>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t most_guests = 32;
constexpr size_t longest_request = 8192;
constexpr auto patience = std::chrono::seconds{1};
constexpr int backlog = 32;

[[noreturn]] void fail() {
  throw std::system_error{errno, std::generic_category()};
}

class Descriptor {
public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept
    : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0)
      close(number_);
  }
  int get() const { return number_; }

private:
  int number_;
};

std::string with_head(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status
         + "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8"
           "\r\nContent-Length: "
         + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
}

struct Guest {
  Descriptor socket;
  Clock::time_point deadline;
  std::string request{};
  std::string answer{}; ///< empty: the request is not whole yet
  size_t sent = 0;
};

Descriptor listen_at(const std::string& host, uint16_t port) {
  sockaddr_in6 where{};
  where.sin6_family = AF_INET6;
  where.sin6_port = htons(port);
  if (inet_pton(AF_INET6, host.c_str(), &where.sin6_addr) != 1) {
    errno = EADDRNOTAVAIL;
    fail();
  }
  Descriptor door{
    socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  const int on = 1;
  if (door.get() < 0
      || setsockopt(door.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0
      || bind(door.get(), reinterpret_cast<const sockaddr*>(&where),
              sizeof where)
           != 0
      || listen(door.get(), backlog) != 0)
    fail();
  return door;
}

} // namespace

struct Ipv6Server::Impl {
  Impl(const std::string& host, uint16_t port,
       std::function<std::string()> answers)
    : door(listen_at(host, port)),
      wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      text(std::move(answers)) {
    if (wake.get() < 0)
      fail();
    thread = std::thread{[this] { serve(); }};
  }

  ~Impl() {
    const uint64_t one = 1;
    [[maybe_unused]] auto ignored = write(wake.get(), &one, sizeof one);
    thread.join();
  }

  void serve() {
    std::vector<pollfd> polled;
    for (;;) {
      const auto room = guests.size() < most_guests ? POLLIN : 0;
      polled = {{wake.get(), POLLIN, 0},
                {door.get(), static_cast<short>(room), 0}};
      for (const auto& guest : guests)
        polled.push_back(
          {guest.socket.get(),
           static_cast<short>(guest.answer.empty() ? POLLIN : POLLOUT), 0});
      poll(polled.data(), polled.size(), wait_ms());
      if (polled[0].revents != 0)
        return;
      size_t index = 2;
      for (auto guest = guests.begin(); guest != guests.end(); ++index) {
        const bool ready = polled[index].revents != 0;
        const bool done = (ready && !go_on(*guest))
                          || Clock::now() >= guest->deadline;
        guest = done ? guests.erase(guest) : std::next(guest);
      }
      if (polled[1].revents != 0)
        admit();
    }
  }

  int wait_ms() const {
    if (guests.empty())
      return -1;
    // They came in the order of their deadlines.
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(
      guests.front().deadline - Clock::now());
    return static_cast<int>(std::max<int64_t>(0, rest.count()));
  }

  void admit() {
    Descriptor made{
      accept4(door.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (made.get() >= 0)
      guests.push_back({std::move(made), Clock::now() + patience});
    else if (errno == EMFILE || errno == ENFILE) // it would call at once again
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
  }

  /// Reads or writes what it can; returns false when nothing is left to do.
  bool go_on(Guest& guest) const {
    if (!guest.answer.empty()) {
      const auto sent = send(guest.socket.get(),
                             guest.answer.data() + guest.sent,
                             guest.answer.size() - guest.sent, MSG_NOSIGNAL);
      if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
      guest.sent += static_cast<size_t>(sent);
      return guest.sent < guest.answer.size();
    }
    char bytes[2048];
    const auto got = recv(guest.socket.get(), bytes, sizeof bytes, 0);
    if (got <= 0)
      return got < 0 && (errno == EAGAIN || errno == EINTR);
    guest.request.append(bytes, static_cast<size_t>(got));
    if (guest.request.find("\r\n\r\n") != std::string::npos
        || guest.request.size() > longest_request)
      guest.answer = answer_to(guest.request);
    return true;
  }

  std::string answer_to(const std::string& request) const {
    const std::string path = "GET /metrics";
    if (request.size() > longest_request)
      return with_head("431 Request Header Fields Too Large", "too long\n");
    if (request.starts_with(path + ' ') || request.starts_with(path + '?'))
      return with_head("200 OK", text());
    return request.starts_with("GET ")
             ? with_head("404 Not Found", "only /metrics is here\n")
             : with_head("405 Method Not Allowed", "only GET is served\n");
  }

  Descriptor door;
  Descriptor wake;
  std::function<std::string()> text;
  std::list<Guest> guests;
  std::thread thread;
};

Ipv6Server::Ipv6Server(const std::string& host, uint16_t port,
                       std::function<std::string()> text)
  : impl_(std::make_unique<Impl>(host, port, std::move(text))) {}

Ipv6Server::~Ipv6Server() = default;

uint16_t Ipv6Server::port() const {
  sockaddr_in6 bound{};
  socklen_t size = sizeof bound;
  getsockname(impl_->door.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.sin6_port);
}

} // namespace troupe
