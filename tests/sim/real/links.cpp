#include "tests/sim/delays.hpp"
#include "tests/sim/real/network.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

// Links: the product's on a socket of each side; the network carries the bytes.

namespace troupe {

/// Linked in place of the product's, which drives links by a thread.
struct MessageLinks::State {
  uint32_t process;
};

MessageLinks::MessageLinks(caf::actor_system&, LinkNode&,
                           std::shared_ptr<MetricRegistry>, Log)
  : state_(std::make_shared<State>(State{real::World::get().spawning})) {}
MessageLinks::~MessageLinks() = default;
void MessageLinks::end() {}
void MessageLinks::cut(uint32_t) {}
void MessageLinks::keep_only(const std::set<std::string>&) {}
std::shared_ptr<LinkMemory> MessageLinks::memory() const {
  return nullptr;
}

void MessageLinks::accept(const std::string&, const Terms& terms,
                          const caf::strong_actor_ptr& target) {
  real::Network::get().accept(state_->process, terms, target);
}

void MessageLinks::connect(
  Request request,
  std::function<void(caf::strong_actor_ptr, const std::string&)> done) {
  real::Network::get().link(state_->process, std::move(request),
                            std::move(done));
}

namespace real {
namespace {

constexpr uint64_t link_deadline = 5'000'000;
/// What the network takes at once; frames come in pieces now and then.
constexpr size_t max_bytes = 32 << 10;
constexpr size_t small_piece = 40;

std::pair<int, int> sockets() {
  int both[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both)
      != 0)
    throw std::runtime_error("no socket is left");
  return {both[0], both[1]};
}

} // namespace

/// What is sent to it leaves at the end of the step.
class Network::Proxy : public LinkProxy {
public:
  Proxy(caf::actor_config& config, std::shared_ptr<MessageLink> link,
        size_t number, int side)
    : LinkProxy(config, std::move(link)), number_(number), side_(side) {}

  bool enqueue(caf::mailbox_element_ptr what,
               caf::execution_unit* host) override {
    if (running())
      Network::get().touch(number_, side_);
    return LinkProxy::enqueue(std::move(what), host);
  }

private:
  bool running() const {
    return Network::get().links_[number_].end[side_] != nullptr;
  }

  size_t number_;
  int side_;
};

std::shared_ptr<MessageLinks> Network::links(caf::actor_system& system) {
  alignas(LinkNode) static std::byte nobody[sizeof(LinkNode)]; // never touched
  return std::make_shared<MessageLinks>(
    system, reinterpret_cast<LinkNode&>(nobody), nullptr, MessageLinks::Log{});
}

void Network::accept(uint32_t process, const MessageLinks::Terms& terms,
                     const caf::strong_actor_ptr& target) {
  acceptors_[process] = {terms, target};
}

void Network::link(uint32_t process, MessageLinks::Request request,
                   Linked done) {
  const auto peer = static_cast<uint32_t>(std::stoul(request.endpoint));
  auto back = way(process, peer);
  back += way(peer, process) - world_.now();
  if (world_.paused(peer))
    back = std::max(back, world_.paused_until(peer));
  const bool late = back > world_.now() + link_deadline;
  world_.in_process(
    process, late ? link_deadline : back - world_.now(),
    [this, process, peer, late, request = std::move(request),
     done = std::move(done)] {
      if (late || !world_.alive(peer) || !acceptors_.contains(peer))
        done(nullptr, late ? "no answer in time" : "connection refused");
      else
        make_link(process, peer, request, done);
    });
}

void Network::make_link(uint32_t process, uint32_t peer,
                        const MessageLinks::Request& request,
                        const Linked& done) {
  const auto number = links_.size();
  auto& made = links_.emplace_back();
  made.process[0] = process;
  made.process[1] = peer;
  const auto& acceptor = acceptors_.at(peer);
  make_end(number, 0, request.to, request.terms, request.target);
  make_end(number, 1, request.from, acceptor.terms, acceptor.target);
  settle(number, 0);
  settle(number, 1);
  done(links_[number].proxy[0], {});
}

void Network::make_end(size_t number, int side, const std::string& peer,
                       const MessageLinks::Terms& terms,
                       const caf::strong_actor_ptr& target) {
  const auto [inner, outer] = sockets();
  auto& link = links_[number];
  link.outer[side] = outer;
  link.target[side] = caf::actor_cast<caf::weak_actor_ptr>(target);
  MessageLink::Events events;
  events.message = [this, number, side](LinkMessage&& message) {
    const auto& of = links_[number];
    if (tap_link)
      tap_link(of.process[side], message);
    if (world_.trace)
      std::visit(
        [&](const auto& x) {
          world_.note(world_.name(of.process[1 - side]) + " => "
                      + world_.name(of.process[side]) + ' '
                      + caf::to_string(caf::make_message(x)));
        },
        message);
    if (auto to = caf::actor_cast<caf::strong_actor_ptr>(of.target[side]))
      troupe::deliver(std::move(message), of.proxy[side], to);
  };
  events.wake = [this, number, side] {
    world_.after(0, [this, number, side] { settle(number, side); });
  };
  link.end[side] = MessageLink::make(
    std::make_unique<LinkSocket>(inner),
    {peer, terms.accepted, std::min(terms.window_bytes, max_window_)},
    std::move(events));
  caf::actor_config config;
  auto& system = world_.system();
  link.proxy[side] = caf::make_actor<Proxy, caf::strong_actor_ptr>(
    system.next_actor_id(), system.node(), &system, config, link.end[side],
    number, side);
}

void Network::flush() {
  if (!broken_.empty())
    throw Broken(broken_);
  if (max_window_ != ~uint64_t{0}) // whoever lets go of a tensor may grant
    for (size_t link = 0; link < links_.size(); ++link)
      for (int side : {0, 1})
        if (links_[link].end[side])
          touch(link, side);
  while (!touched_.empty()) {
    const auto [link, side] = *touched_.begin();
    touched_.erase(touched_.begin());
    carry(link, side);
  }
}

/// Takes what a side has written.
void Network::carry(size_t number, int side) {
  for (;;) {
    auto& link = links_[number];
    if (!link.end[side])
      return;
    static std::array<std::byte, max_bytes> room;
    auto& draw = world_.random();
    const auto size = draw.chance(5) ? 1 + draw.below(small_piece)
                                     : room.size();
    const auto got = recv(link.outer[side], room.data(), size, 0);
    if (got <= 0)
      return;
    link_bytes_ += static_cast<uint64_t>(got);
    std::vector<std::byte> bytes(room.begin(), room.begin() + got);
    if (std::exchange(link.corrupts[side], false)) {
      bytes[draw.below(bytes.size())] ^= std::byte{1} << draw.below(8);
      ++corrupted_;
      world_.note("a byte is not what was sent");
    }
    auto& stream = link.stream[side];
    const auto to = link.process[1 - side];
    const auto arrives = arrival(stream, link.process[side], to);
    world_.at(arrives, [this, number, side, to, generation = stream.generation,
                        bytes = std::move(bytes)] {
      if (links_[number].stream[side].generation == generation)
        world_.in_process(to, 0, [this, number, side, bytes] {
          arrive(number, 1 - side, bytes);
        });
    });
    if (link.end[side]->wants_write())
      link.end[side]->on_writable();
  }
}

void Network::arrive(size_t number, int side, std::vector<std::byte> bytes) {
  for (size_t at = 0; at < bytes.size();) {
    auto& link = links_[number];
    if (!link.end[side])
      return;
    const auto put = ::send(link.outer[side], bytes.data() + at,
                            bytes.size() - at, MSG_NOSIGNAL);
    if (put < 0 && errno != EAGAIN)
      return;
    at += put > 0 ? static_cast<size_t>(put) : 0;
    link.end[side]->on_readable();
    settle(number, side);
  }
}

void Network::settle(size_t number, int side) {
  auto& link = links_[number];
  if (!link.end[side])
    return;
  if (link.end[side]->wants_write())
    link.end[side]->on_writable();
  link.end[side]->wants_write();
  const auto down = link.end[side]->down();
  if (down.empty()) {
    touch(number, side);
    return;
  }
  world_.note(world_.name(link.process[side]) + " has lost a link: " + down);
  const auto proxy = link.proxy[side];
  close(number, side);
  end_link_proxy(proxy, down);
  end_of_stream(number, 1 - side, false);
}

void Network::close(size_t number, int side) {
  auto& link = links_[number];
  if (!link.end[side])
    return;
  auto end = std::exchange(link.end[side], nullptr);
  end->close();
  link.proxy[side] = nullptr;
  ::close(std::exchange(link.outer[side], -1));
}

void Network::end_of_stream(size_t number, int side, bool loses) {
  auto& stream = links_[number].stream[1 - side]; // towards this side
  if (loses)
    ++stream.generation;
  const auto last = loses ? world_.now() : std::max(world_.now(), stream.last);
  const auto delay = world_.random().between(sim::end_notice[0],
                                             sim::end_notice[1]);
  world_.in_process(links_[number].process[side], last - world_.now() + delay,
                    [this, number, side] {
                      auto& link = links_[number];
                      if (!link.end[side])
                        return;
                      shutdown(link.outer[side], SHUT_RDWR);
                      link.end[side]->on_readable();
                      settle(number, side);
                    });
}

size_t Network::cut_links(uint32_t a, uint32_t b) {
  size_t count = 0;
  for (size_t i = 0; i < links_.size(); ++i) {
    const auto& link = links_[i];
    const bool between = (link.process[0] == a && link.process[1] == b)
                         || (link.process[0] == b && link.process[1] == a);
    if (!between || !link.end[0] || !link.end[1])
      continue;
    end_of_stream(i, 0, true);
    end_of_stream(i, 1, true);
    ++count;
  }
  return count;
}

bool Network::corrupt(uint32_t a, uint32_t b) {
  for (auto& link : links_)
    for (int side = 0; side < 2; ++side)
      if (link.process[side] == a && link.process[1 - side] == b && link.end[0]
          && link.end[1])
        return link.corrupts[side] = true;
  return false;
}

} // namespace real
} // namespace troupe
