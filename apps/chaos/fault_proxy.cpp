#include "apps/chaos/fault_proxy.hpp"

#include "actors/sockets/addresses.hpp"
#include "actors/sockets/endpoint.hpp"
#include "apps/chaos/proxied_link.hpp"
#include "kernels/base/error.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
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

constexpr int slow_turn_ms = 10;

struct Door { ///< to the coordinator, of one role
  std::string role;
  Descriptor listener; ///< none while nobody listens behind it
  uint16_t port;
};

struct Strike {
  ChaosKind kind = ChaosKind::stall;
  std::string role;
  milliseconds lasts{0};
  Clock::time_point deadline;
  // --- of the thread
  ProxiedLink* link = nullptr;
  std::array<bool, 2> ways{};
  Clock::time_point over;
  bool held = false; ///< something was on its way
  std::optional<bool> outcome;
};

} // namespace

struct FaultProxy::Impl {
  Impl(uint64_t seed, std::vector<std::string> controlled)
    : random(seed), wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    listener = listen_here();
    for (auto& role : controlled) {
      auto made = listen_here();
      const auto port = SocketAddress::of_socket(made.get()).port();
      doors.push_back({std::move(role), std::move(made), port});
    }
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

  void accept_all(const Descriptor& at, const std::string& role) {
    for (;;) {
      Descriptor made{
        ::accept4(at.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (!made)
        return;
      prepare_tcp(made.get());
      auto& link = links.emplace_back();
      link.ends[0] = std::move(made);
      link.control = !role.empty();
      link.roles[0] = role;
    }
  }

  /// A door is shut while the coordinator is away, so that whoever knocks is
  /// refused as at the coordinator's own: a connection that ends in its
  /// greeting costs CAF 0.18.7 a descriptor.
  void look_at_doors() {
    shut = coordinator && !listens(*coordinator);
    for (auto& door : doors)
      if (shut)
        door.listener = Descriptor{};
      else if (!door.listener)
        open(door);
  }

  void open(Door& door) {
    try {
      door.listener = listen_here(door.port);
    } catch (const InputError&) {
      shut = true; // somebody has its port for a moment
    }
  }

  /// False: the link is at its end.
  bool receive(ProxiedLink& link, size_t from) {
    const auto count = link.receive(from);
    if (count > 0 && strike && strike->link == &link && strike->ways[from])
      strike_bytes(link.streams[from]);
    return count >= 0;
  }

  void strike_bytes(LinkStream& stream) {
    strike->held = true;
    if (strike->kind != ChaosKind::flip)
      return;
    const auto at = random() % stream.end;
    stream.bytes[at] =
      static_cast<char>(stream.bytes[at] ^ (1 << (random() % 8)));
    conclude(true);
  }

  /// False: it ended, or one of its ends did.
  bool serve(ProxiedLink& link) {
    if (!link.connected() && link.control)
      return coordinator ? link.dial(*coordinator) : true;
    if (!link.connected() && !link.introduce())
      return false;
    if (!link.connected())
      return true;
    for (size_t from : {0, 1})
      if (!receive(link, from) || !link.send(from))
        return false;
    return true;
  }

  // --- the strike ------------------------------------------------------------

  bool is_of(const ProxiedLink& link, const std::string& role) const {
    const bool control = strike->kind == ChaosKind::slow_control;
    return link.connected() && link.control == control
           && (link.roles[0] == role || link.roles[1] == role)
           && link.streams[0].passed && link.streams[1].passed;
  }

  void begin() {
    std::vector<ProxiedLink*> candidates;
    for (auto& link : links)
      if (is_of(link, strike->role))
        candidates.push_back(&link);
    if (candidates.empty())
      return; // there may be one soon
    auto& link = *candidates[random() % candidates.size()];
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
      else if (strike->kind == ChaosKind::slow_control)
        stream.late = on;
      else if (strike->kind != ChaosKind::flip)
        stream.stands = on;
    }
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
      if (strike->ways[from] && strike->link->waits(from))
        strike->held = true;
    if (now <= strike->over)
      return;
    if (strike->held && strike->kind != ChaosKind::flip)
      conclude(true);
    else if (now > strike->deadline)
      conclude(false);
    else
      leave(); // nothing came its way: another link, or the other way
  }

  /// The link has ended under it: that is a fault that took place, too.
  void forget(ProxiedLink* link) {
    if (strike && !strike->outcome && strike->link == link)
      conclude(true);
  }

  void leave() {
    if (strike->link)
      mark(false);
    strike->link = nullptr;
  }

  void conclude(bool done) {
    leave();
    strike->outcome = done;
    changed.notify_all();
  }

  // --- the loop --------------------------------------------------------------

  void wait(int rest_ms) {
    std::vector<pollfd> polled{{wake.get(), POLLIN, 0},
                               {listener.get(), POLLIN, 0}};
    for (const auto& door : doors)
      if (door.listener)
        polled.push_back({door.listener.get(), POLLIN, 0});
    for (auto& link : links)
      for (size_t end : {0, 1}) {
        if (!link.ends[end] || (link.control && !link.connected()))
          continue;
        const auto& out = link.streams[end];
        const auto& in = link.streams[1 - end];
        short events = 0;
        if (out.begin == out.end && !out.ended && !out.stands && !out.slow)
          events |= POLLIN;
        if (in.may_send())
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
      accept_all(listener, {});
      for (const auto& door : doors)
        if (door.listener)
          accept_all(door.listener, door.role);
      for (auto at = links.begin(); at != links.end();) {
        if (serve(*at)) {
          ++at;
          continue;
        }
        forget(&*at);
        if (at->control)
          look_at_doors();
        at = links.erase(at);
      }
      look_at_strike();
      if (shut)
        look_at_doors();
      rest_ms = shut || (strike && !strike->outcome) ? slow_turn_ms : -1;
    }
  }

  std::mt19937_64 random;
  Descriptor wake;
  Descriptor listener;
  std::vector<Door> doors;
  std::list<ProxiedLink> links;
  bool shut = false; ///< the doors

  std::mutex mutex; ///< of what follows; held while links are served
  std::condition_variable changed;
  std::optional<Strike> strike;
  std::optional<SocketAddress> coordinator;
  bool over = false;
  std::thread thread;
};

std::string control_proxy_of(const std::string& role, const char* addresses) {
  std::istringstream text{addresses ? addresses : ""};
  for (std::string one; std::getline(text, one, ',');)
    if (one.starts_with(role + '='))
      return one.substr(role.size() + 1);
  return {};
}

FaultProxy::FaultProxy(uint64_t seed, std::vector<std::string> controlled)
  : impl_(std::make_unique<Impl>(seed, std::move(controlled))) {}

FaultProxy::~FaultProxy() = default;

std::string FaultProxy::address() const {
  return address_of(impl_->listener);
}

std::string FaultProxy::control_addresses() const {
  std::string out;
  for (const auto& door : impl_->doors)
    out += (out.empty() ? "" : ",") + door.role
           + "=127.0.0.1:" + std::to_string(door.port);
  return out;
}

void FaultProxy::lead_to(const std::string& coordinator) {
  const auto place = parse_endpoint(coordinator);
  const std::lock_guard guard{impl_->mutex};
  if (place)
    impl_->coordinator = SocketAddress::of_number(place->host, place->port);
  impl_->poke();
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
