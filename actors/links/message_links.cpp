#include "actors/links/message_links.hpp"

#include "actors/links/cable_metrics.hpp"
#include "actors/links/link_proxy.hpp"
#include "monitoring/names.hpp"

#include <algorithm>
#include <future>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr auto end_deadline = 5s;

struct LinkMetrics {
  LinkMetrics(MetricRegistry& registry, const MetricLabels& labels)
    : sent(registry.counter(metrics::link_sent_bytes_total, labels)),
      received(registry.counter(metrics::link_received_bytes_total, labels)),
      queued(registry.largest(metrics::link_queued_bytes, labels)) {}

  void show(const MessageLink::Counts& now) {
    sent.add(static_cast<double>(now.sent_bytes - known.sent_bytes));
    received.add(static_cast<double>(now.arrived_bytes - known.arrived_bytes));
    queued->set(static_cast<double>(now.queued_bytes));
    known = now;
  }

  Counter& sent;
  Counter& received;
  std::unique_ptr<GaugeShare> queued;
  MessageLink::Counts known;
};

/// 1 while a peer is linked over a carrier, by however many links.
class CarrierGauge {
public:
  CarrierGauge(MetricRegistry& registry, const std::string& peer,
               const char* carrier)
    : gauge_(&registry.gauge(metrics::link_carrier,
                             {{"peer", peer}, {"carrier", carrier}})) {
    gauge_->set(1);
  }
  /// Whether it shows the same as another one, which links still use.
  bool same(const CarrierGauge& other) const { return gauge_ == other.gauge_; }
  void end() { gauge_->set(0); }

private:
  Gauge* gauge_;
};

/// Whether a stream may be opened by who its greeting, and its certificate,
/// say.
bool is_let_in(const MessageLinks::Terms& terms, const std::string& from) {
  const auto name = parse_member_name(from);
  return !terms.peers || (name && name->kind == *terms.peers);
}

struct Served {
  std::shared_ptr<MessageLink> link;
  caf::strong_actor_ptr proxy;
  caf::weak_actor_ptr target;
  LinkMetrics metrics;
  CarrierGauge carrier;
  uint64_t watch = 0;
  CableMetrics cable{};
  std::string peer{};
  bool writing = false; ///< the loop tells when the socket can be written
};

} // namespace

/// All but wake() belongs to the links' thread. Handlers that the loop and the
/// links keep hold it, so it may outlive MessageLinks; then it is over.
struct MessageLinks::State : std::enable_shared_from_this<State> {
  State(caf::actor_system& system, LinkNode& node,
        std::shared_ptr<MetricRegistry> registry, Log log)
    : system(system),
      node(node),
      memory(node.memory()),
      registry(std::move(registry)),
      log(std::move(log)),
      dropped(this->registry->counter(metrics::link_messages_dropped_total)),
      loop(&node.io()) {}

  void wake(uint64_t id);
  caf::strong_actor_ptr
  serve(const Fence& fence, std::unique_ptr<LinkSocket> socket,
        std::vector<Descriptor> passed, const std::string& peer,
        const Terms& terms, const caf::strong_actor_ptr& target);
  void take(uint64_t id, LinkMessage&& message);
  void turn(uint64_t id, uint32_t events);
  void settle(uint64_t id);
  void forget(uint64_t id);
  void end(Served&& gone);
  void end_all();
  void show_metrics();
  void look_at_cables();

  caf::actor_system& system;
  LinkNode& node;
  const std::shared_ptr<LinkMemory> memory;
  std::shared_ptr<MetricRegistry> registry;
  Log log;
  Counter& dropped;
  std::unordered_map<uint64_t, Served> served;
  std::set<std::string> names; ///< accepted under
  uint64_t last_id = 0;
  uint64_t timer = 0;
  uint64_t cable_timer = 0;
  bool over = false;

  std::mutex mutex;
  IoLoop* loop; ///< null: over
  /// Those of `served`, for other threads.
  std::map<uint64_t, std::pair<std::string, std::weak_ptr<MessageLink>>> open;
};

void MessageLinks::State::wake(uint64_t id) {
  std::lock_guard lock{mutex};
  if (loop != nullptr)
    loop->post([self = shared_from_this(), id] { self->settle(id); });
}

caf::strong_actor_ptr
MessageLinks::State::serve(const Fence& fence,
                           std::unique_ptr<LinkSocket> socket,
                           std::vector<Descriptor> passed,
                           const std::string& peer, const Terms& terms,
                           const caf::strong_actor_ptr& target) {
  const auto id = ++last_id;
  // Whoever makes a link of an epoch knows that all members have sealed for it.
  // Shards and stages seal when their executors are done with what links have
  // brought, and shards have copied what they keep. A worker copies that as it
  // comes, so nothing of it is left then.
  if (const auto& memory = node.memory())
    memory->let_go(fence);
  MessageLink::Events events;
  events.message = [this, id](LinkMessage&& x) { take(id, std::move(x)); };
  events.wake = [weak = weak_from_this(), id] {
    if (auto self = weak.lock())
      self->wake(id);
  };
  const auto shared = PeerMemory::map(std::move(passed));
  const auto* carrier = node.memory() && shared ? "shm"
                        : socket->encrypted()   ? "tcp+tls"
                                                : "tcp";
  auto link = MessageLink::make(std::move(socket),
                                {peer, terms.accepted, terms.window_bytes,
                                 node.memory(), shared, terms.ranks},
                                std::move(events));
  auto proxy = make_link_proxy(system, link);
  const auto watch =
    node.io().watch(link->descriptor(), EPOLLIN,
                    [this, id](uint32_t happened) { turn(id, happened); });
  {
    std::lock_guard lock{mutex};
    open.emplace(id, std::pair{peer, link});
  }
  served.emplace(id, Served{std::move(link), proxy,
                            caf::actor_cast<caf::weak_actor_ptr>(target),
                            LinkMetrics{*registry, {{"peer", peer}}},
                            CarrierGauge{*registry, peer, carrier}, watch});
  served.at(id).peer = peer;
  settle(id); // TLS may have read what no event tells of
  turn(id, EPOLLIN);
  return proxy;
}

void MessageLinks::State::take(uint64_t id, LinkMessage&& message) {
  const auto& link = served.at(id);
  if (auto target = caf::actor_cast<caf::strong_actor_ptr>(link.target))
    deliver(std::move(message), link.proxy, target);
  else
    dropped.add();
}

void MessageLinks::State::turn(uint64_t id, uint32_t happened) {
  auto found = served.find(id);
  if (found == served.end())
    return;
  auto& link = *found->second.link;
  if ((happened & ~static_cast<uint32_t>(EPOLLOUT)) != 0)
    link.on_readable();
  if ((happened & EPOLLOUT) != 0)
    link.on_writable();
  settle(id);
}

void MessageLinks::State::settle(uint64_t id) {
  auto found = served.find(id);
  if (found == served.end())
    return;
  auto& one = found->second;
  const auto writing = one.link->wants_write();
  if (!one.link->down().empty()) {
    auto gone = std::move(one);
    served.erase(found);
    forget(id);
    end(std::move(gone));
  } else if (writing != one.writing) {
    one.writing = writing;
    node.io().rearm(one.watch, writing ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
}

void MessageLinks::State::forget(uint64_t id) {
  std::lock_guard lock{mutex};
  open.erase(id);
}

void MessageLinks::State::end(Served&& gone) {
  gone.metrics.show(gone.link->counts());
  gone.cable.end();
  if (std::ranges::none_of(served, [&](const auto& one) {
        return one.second.carrier.same(gone.carrier);
      }))
    gone.carrier.end();
  if (log && gone.link->broke_rules())
    log("links: " + gone.link->down());
  node.io().unwatch(gone.watch);
  gone.link->close();
  end_link_proxy(gone.proxy, gone.link->down());
}

void MessageLinks::State::end_all() {
  over = true;
  node.io().cancel(timer);
  node.io().cancel(cable_timer);
  for (const auto& name : names)
    node.on_channel(name, {});
  for (auto& [id, one] : std::exchange(served, {}))
    end(std::move(one));
}

void MessageLinks::State::show_metrics() {
  for (auto& [id, one] : served) {
    one.metrics.show(one.link->counts());
    if (const auto counts = cable_counts(one.link->descriptor()))
      one.cable.show(*counts, *registry, one.peer);
  }
  timer = node.io().at(IoLoop::Clock::now() + cable_show_period,
                       [this] { show_metrics(); });
}

/// A cable that is cut says nothing, and the system would try for long.
void MessageLinks::State::look_at_cables() {
  std::vector<uint64_t> cut;
  for (auto& [id, one] : served) {
    if (is_cut(one.link->descriptor(), node.patience()))
      cut.push_back(id);
    if (const auto counts = cable_counts(one.link->descriptor()))
      one.cable.look(*counts, *registry, one.peer);
  }
  for (auto id : cut) {
    reset_cable(served.at(id).link->descriptor());
    served.at(id).link->give_up(no_answer(node.patience()));
    settle(id);
  }
  cable_timer = node.io().at(IoLoop::Clock::now() + cable_period,
                             [this] { look_at_cables(); });
}

MessageLinks::MessageLinks(caf::actor_system& system, LinkNode& node,
                           std::shared_ptr<MetricRegistry> metrics, Log log)
  : state_(
    std::make_shared<State>(system, node, std::move(metrics), std::move(log))) {
  node.io().post([state = state_] {
    state->show_metrics();
    state->look_at_cables();
  });
}

std::shared_ptr<LinkMemory> MessageLinks::memory() const {
  return state_->memory;
}

MessageLinks::~MessageLinks() {
  end();
}

void MessageLinks::end() {
  auto done = std::make_shared<std::promise<void>>();
  auto ended = done->get_future();
  {
    std::lock_guard lock{state_->mutex};
    auto* loop = std::exchange(state_->loop, nullptr);
    if (loop == nullptr || !loop->post([state = state_, done] {
          state->end_all();
          done->set_value();
        }))
      return;
  }
  ended.wait_for(end_deadline);
}

void MessageLinks::cut(uint32_t which) {
  std::lock_guard lock{state_->mutex};
  if (state_->loop == nullptr)
    return;
  state_->loop->post([state = state_, which] {
    if (state->served.empty())
      return;
    auto one = state->served.begin();
    std::advance(one, which % state->served.size());
    auto gone = std::move(one->second);
    state->forget(one->first);
    state->served.erase(one);
    state->end(std::move(gone));
  });
}

void MessageLinks::keep_only(const std::set<std::string>& peers) {
  std::vector<std::pair<std::string, std::shared_ptr<MessageLink>>> links;
  {
    std::lock_guard lock{state_->mutex};
    for (const auto& [id, one] : state_->open)
      if (auto link = one.second.lock())
        links.emplace_back(one.first, std::move(link));
  }
  for (const auto& [peer, link] : links)
    if (peers.contains(peer))
      link->own_values();
    else
      link->hush();
}

void MessageLinks::accept(const std::string& name, const Terms& terms,
                          const caf::strong_actor_ptr& target) {
  auto weak = caf::actor_cast<caf::weak_actor_ptr>(target);
  std::lock_guard lock{state_->mutex};
  if (state_->loop == nullptr)
    return;
  state_->loop->post([state = state_, name, terms, weak] {
    if (state->over)
      return;
    state->names.insert(name);
    state->node.on_channel(name, [state, name, terms,
                                  weak](ChannelArrival arrival) {
      auto alive = caf::actor_cast<caf::strong_actor_ptr>(weak);
      if (!is_let_in(terms, arrival.from)) {
        if (state->log)
          state->log("links: " + arrival.from + " has nothing to ask of "
                     + name);
      } else if (alive && !state->over)
        state->serve(arrival.fence, std::move(arrival.socket),
                     std::move(arrival.passed), arrival.from, terms, alive);
    });
  });
}

void MessageLinks::connect(
  Request request,
  std::function<void(caf::strong_actor_ptr, const std::string&)> done) {
  std::unique_lock lock{state_->mutex};
  if (state_->loop == nullptr) {
    lock.unlock();
    done(nullptr, "the links have ended");
    return;
  }
  ChannelRequest open{request.fence,    request.name, request.from,
                      request.endpoint, request.to,   request.deadline};
  state_->node.open_channel(
    std::move(open), [state = state_, request = std::move(request),
                      done = std::move(done)](ChannelOutcome outcome) {
      if (state->over || !outcome.socket)
        done(nullptr, state->over ? "the links have ended" : outcome.error);
      else
        done(state->serve(request.fence, std::move(outcome.socket),
                          std::move(outcome.passed), request.to, request.terms,
                          request.target),
             {});
    });
}

} // namespace troupe
