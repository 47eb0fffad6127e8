#include "apps/fault_proxy.hpp"

#include "actors/links/addresses.hpp"
#include "actors/links/descriptor.hpp"
#include "kernels/error.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t buffer_bytes = 256 << 10;
/// Of a throttled link: so much in each turn of the loop, which then rests.
constexpr size_t slow_bytes = 16 << 10;
constexpr int slow_turn_ms = 10;
constexpr size_t longest_line = 256;

/// What goes one way over one link.
struct Stream {
  std::vector<char> bytes = std::vector<char>(buffer_bytes);
  size_t begin = 0;
  size_t end = 0;
  bool ended = false;  ///< by who sends
  bool passed = false; ///< something, ever
  bool stands = false;
  bool slow = false;
};

/// A connection that was dialled through the proxy. Ends 0 and 1: who dialled,
/// and whom.
struct Link {
  std::array<Descriptor, 2> ends;
  std::array<std::string, 2> roles;
  std::string line;              ///< of who dials, as far as it is there
  std::array<Stream, 2> streams; ///< from end i to the other
  bool connected() const { return static_cast<bool>(ends[1]); }
};

struct Strike {
  ChaosKind kind = ChaosKind::cut;
  std::string role;
  milliseconds lasts{0};
  Clock::time_point deadline;
  // --- of the thread
  Link* link = nullptr;
  std::array<bool, 2> ways{};
  Clock::time_point over;
  bool held = false; ///< something was on its way
  std::optional<bool> outcome;
};

} // namespace

struct FaultProxy::Impl {
  explicit Impl(uint64_t seed)
    : random(seed), wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    const auto any = SocketAddress::of_number("127.0.0.1", 0);
    listener = Descriptor{open_socket(*any)};
    if (!listener || ::bind(listener.get(), any->get(), any->size()) != 0
        || ::listen(listener.get(), SOMAXCONN) != 0)
      throw InputError(std::string{"the proxy of links cannot listen: "}
                       + std::strerror(errno));
    port = SocketAddress::of_socket(listener.get()).port();
    thread = std::thread{[this] { run(); }};
  }

  ~Impl() {
    {
      const std::lock_guard guard{mutex};
      over = true;
    }
    poke();
    thread.join();
  }

  void poke() const {
    const uint64_t one = 1;
    [[maybe_unused]] auto ignored = ::write(wake.get(), &one, sizeof one);
  }

  // --- the links -------------------------------------------------------------

  void accept_all() {
    for (;;) {
      Descriptor made{::accept4(listener.get(), nullptr, nullptr,
                                SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (!made)
        return;
      prepare_tcp(made.get());
      links.emplace_back();
      links.back().ends[0] = std::move(made);
    }
  }

  /// Reads who dials whom where, a byte at a time: what follows is not for the
  /// proxy. False: it is no such line, or nobody is there.
  static bool introduce(Link& link) {
    char one = 0;
    ssize_t count = 0;
    while ((count = ::recv(link.ends[0].get(), &one, 1, 0)) == 1
           && one != '\n') {
      link.line += one;
      if (link.line.size() > longest_line)
        return false;
    }
    if (count != 1)
      return count < 0 && errno == EAGAIN;
    std::string host;
    uint16_t port = 0;
    std::istringstream{link.line} >> link.roles[0] >> link.roles[1] >> host
      >> port;
    const auto address = SocketAddress::of_number(host, port);
    Descriptor made{address ? open_socket(*address) : -1};
    if (!made
        || (::connect(made.get(), address->get(), address->size()) != 0
            && errno != EINPROGRESS))
      return false;
    link.ends[1] = std::move(made);
    return true;
  }

  /// False: the link is at its end.
  bool receive(Link& link, size_t from) {
    auto& stream = link.streams[from];
    if (stream.begin != stream.end || stream.ended || stream.stands)
      return true;
    const auto most = stream.slow ? slow_bytes : stream.bytes.size();
    const auto count = ::recv(link.ends[from].get(), stream.bytes.data(), most,
                              0);
    if (count < 0)
      return errno == EAGAIN || errno == ENOTCONN;
    stream.begin = 0;
    stream.end = static_cast<size_t>(count);
    stream.ended = count == 0;
    stream.passed = stream.passed || count > 0;
    if (count > 0 && strike && strike->link == &link && strike->ways[from])
      strike_bytes(stream);
    return true;
  }

  void strike_bytes(Stream& stream) {
    strike->held = true;
    if (strike->kind != ChaosKind::flip)
      return;
    const auto at = random() % stream.end;
    stream.bytes[at] =
      static_cast<char>(stream.bytes[at] ^ (1 << (random() % 8)));
    conclude(true);
  }

  static bool send(Link& link, size_t from) {
    auto& stream = link.streams[from];
    const auto to = link.ends[1 - from].get();
    while (stream.begin != stream.end && !stream.stands) {
      const auto count = ::send(to, stream.bytes.data() + stream.begin,
                                stream.end - stream.begin, MSG_NOSIGNAL);
      if (count < 0)
        return errno == EAGAIN || errno == ENOTCONN;
      stream.begin += static_cast<size_t>(count);
    }
    return stream.begin != stream.end || !stream.ended;
  }

  /// False: it ended, or one of its ends did.
  bool serve(Link& link) {
    if (!link.connected() && !introduce(link))
      return false;
    if (!link.connected())
      return true;
    for (size_t from : {0, 1})
      if (!receive(link, from) || !send(link, from))
        return false;
    return true;
  }

  // --- the strike
  // --------------------------------------------------------------

  bool is_of(const Link& link, const std::string& role) const {
    return link.connected() && (link.roles[0] == role || link.roles[1] == role)
           && link.streams[0].passed && link.streams[1].passed;
  }

  void begin() {
    std::vector<Link*> candidates;
    for (auto& link : links)
      if (is_of(link, strike->role))
        candidates.push_back(&link);
    if (candidates.empty())
      return; // there may be one soon
    auto& link = *candidates[random() % candidates.size()];
    if (strike->kind == ChaosKind::cut) {
      reset(link);
      to_end = &link;
      conclude(true);
      return;
    }
    strike->link = &link;
    const bool one = strike->kind == ChaosKind::one_way
                     || strike->kind == ChaosKind::flip;
    strike->ways = {true, true};
    if (one)
      strike->ways[random() % 2] = false;
    strike->over = Clock::now() + strike->lasts;
    mark(true);
  }

  void mark(bool on) {
    for (size_t from : {0, 1}) {
      auto& stream = strike->link->streams[from];
      if (!strike->ways[from])
        continue;
      if (strike->kind == ChaosKind::throttle)
        stream.slow = on;
      else if (strike->kind != ChaosKind::flip)
        stream.stands = on;
    }
  }

  static void reset(Link& link) {
    const linger at_once{1, 0};
    for (auto& end : link.ends)
      if (end)
        ::setsockopt(end.get(), SOL_SOCKET, SO_LINGER, &at_once,
                     sizeof at_once);
  }

  void look_at_strike() {
    if (!strike || strike->outcome)
      return;
    const auto now = Clock::now();
    if (!strike->link)
      begin();
    if (strike->outcome || !strike->link) {
      if (!strike->outcome && now > strike->deadline)
        conclude(false);
      return;
    }
    for (size_t from : {0, 1})
      if (strike->ways[from] && waits(*strike->link, from))
        strike->held = true;
    if (strike->kind == ChaosKind::flip ? now > strike->deadline
                                        : now > strike->over)
      conclude(strike->held && strike->kind != ChaosKind::flip);
  }

  /// Whether something stands before the proxy, or in it.
  static bool waits(Link& link, size_t from) {
    char one = 0;
    const auto& stream = link.streams[from];
    return stream.begin != stream.end
           || ::recv(link.ends[from].get(), &one, 1, MSG_PEEK) == 1;
  }

  /// The link has ended under it: that is a fault that took place, too.
  void forget(Link* link) {
    if (strike && !strike->outcome && strike->link == link)
      conclude(true);
  }

  void conclude(bool done) {
    if (strike->link)
      mark(false);
    strike->link = nullptr;
    strike->outcome = done;
    changed.notify_all();
  }

  // --- the loop
  // ----------------------------------------------------------------

  void wait(int rest_ms) {
    std::vector<pollfd> polled{{wake.get(), POLLIN, 0},
                               {listener.get(), POLLIN, 0}};
    for (auto& link : links)
      for (size_t end : {0, 1}) {
        if (!link.ends[end])
          continue;
        const auto& out = link.streams[end];
        const auto& in = link.streams[1 - end];
        short events = 0;
        if (out.begin == out.end && !out.ended && !out.stands && !out.slow)
          events |= POLLIN;
        if (in.begin != in.end && !in.stands)
          events |= POLLOUT;
        // A peer's end is told in any case; it is looked at when it may pass.
        if (events != 0)
          polled.push_back({link.ends[end].get(), events, 0});
      }
    ::poll(polled.data(), polled.size(), rest_ms);
    uint64_t count = 0;
    [[maybe_unused]] auto ignored = ::read(wake.get(), &count, sizeof count);
  }

  void run() {
    pthread_setname_np(pthread_self(), "fault proxy");
    for (int rest_ms = -1;;) {
      wait(rest_ms);
      const std::lock_guard guard{mutex};
      if (over)
        return;
      accept_all();
      for (auto at = links.begin(); at != links.end();) {
        if (&*at != to_end && serve(*at)) {
          ++at;
          continue;
        }
        forget(&*at);
        at = links.erase(at);
      }
      to_end = nullptr;
      look_at_strike();
      rest_ms = to_end ? 0 : strike && !strike->outcome ? slow_turn_ms : -1;
    }
  }

  std::mt19937_64 random;
  Descriptor wake;
  Descriptor listener;
  uint16_t port = 0;
  std::list<Link> links;
  Link* to_end = nullptr; ///< was reset

  std::mutex mutex; ///< of what follows; held while links are served
  std::condition_variable changed;
  std::optional<Strike> strike;
  bool over = false;
  std::thread thread;
};

FaultProxy::FaultProxy(uint64_t seed) : impl_(std::make_unique<Impl>(seed)) {}

FaultProxy::~FaultProxy() = default;

std::string FaultProxy::address() const {
  return "127.0.0.1:" + std::to_string(impl_->port);
}

bool FaultProxy::strike(ChaosKind kind, const std::string& role,
                        std::chrono::milliseconds lasts,
                        std::chrono::milliseconds deadline) {
  std::unique_lock guard{impl_->mutex};
  impl_->strike = Strike{};
  impl_->strike->kind = kind;
  impl_->strike->role = role;
  impl_->strike->lasts = lasts;
  impl_->strike->deadline = Clock::now() + deadline;
  impl_->poke();
  impl_->changed.wait(guard,
                      [&] { return impl_->strike->outcome.has_value(); });
  const bool done = *impl_->strike->outcome;
  impl_->strike.reset();
  return done;
}

} // namespace troupe
