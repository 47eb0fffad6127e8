#include "tests/sim/real/network.hpp"

#include "tests/sim/delays.hpp"

#include <algorithm>

// Control messages; links.cpp has the rest.

namespace troupe::real {
namespace {

Network* running_network = nullptr;
constexpr uint64_t latency[2] = {20, 300};

} // namespace

/// Stands for an actor of another process.
class Network::Wire : public caf::actor_proxy {
public:
  Wire(caf::actor_config& config, uint32_t viewer, caf::strong_actor_ptr actor)
    : caf::actor_proxy(config), viewer_(viewer), actor_(std::move(actor)) {}

  const char* name() const override { return "wire"; }
  bool enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override {
    // The last processes end with the world, when no network is left.
    if (ended_ || running_network == nullptr)
      return false;
    running_network->send(viewer_, actor_, *what);
    return true;
  }
  void kill_proxy(caf::execution_unit* host, caf::error why) override {
    ended_ = true;
    cleanup(std::move(why), host);
  }
  uint32_t viewer() const { return viewer_; }
  const caf::strong_actor_ptr& actor() const { return actor_; }

private:
  uint32_t viewer_;
  caf::strong_actor_ptr actor_;
  bool ended_ = false;
};

Network::Network(World& world) : world_(world) {
  running_network = this;
  world.dies = [this](uint32_t process) { died(process); };
  world.settle = [this] { flush(); };
}

Network::~Network() {
  world_.dies = nullptr;
  world_.settle = nullptr;
  for (size_t link = 0; link < links_.size(); ++link)
    for (int side = 0; side < 2; ++side)
      close(link, side);
  running_network = nullptr;
}

Network& Network::get() {
  return *running_network;
}

uint64_t Network::way(uint32_t from, uint32_t to) {
  auto& draw = world_.random();
  auto time = world_.now() + draw.between(latency[0], latency[1]);
  if (world_.now() < slow_until_)
    time += draw.below(slow_extra_ + 1);
  if (auto found = blocked_.find({from, to}); found != blocked_.end())
    time = std::max(time, found->second);
  return time;
}

uint64_t Network::arrival(Stream& stream, uint32_t from, uint32_t to) {
  return stream.last = std::max(stream.last, way(from, to));
}

caf::strong_actor_ptr Network::seen_from(uint32_t viewer,
                                         const caf::strong_actor_ptr& actor) {
  if (!actor || world_.process_of(actor) == viewer)
    return actor;
  auto& wire = wires_[{viewer, actor->id()}];
  if (!wire) {
    caf::actor_config config;
    auto& system = world_.system();
    wire = caf::make_actor<Wire, caf::strong_actor_ptr>(
      system.next_actor_id(), system.node(), &system, config, viewer, actor);
    if (world_.process_of(actor) == 0) // it has ended already
      world_.in_process(viewer, sim::end_notice[0], [wire = wire] {
        static_cast<Wire*>(caf::actor_cast<caf::abstract_actor*>(wire))
          ->kill_proxy(nullptr,
                       caf::make_error(caf::sec::remote_lookup_failed));
      });
  }
  return wire;
}

void Network::send(uint32_t viewer, const caf::strong_actor_ptr& actor,
                   const caf::mailbox_element& what) {
  const auto to = world_.process_of(actor);
  if (to == 0 || !world_.alive(viewer)) // it begins as it is killed
    return;
  ++control_messages_;
  if (tap_sent)
    tap_sent(what.payload);
  caf::byte_buffer bytes;
  caf::binary_serializer sink{world_.system(), bytes};
  if (!sink.apply(what.payload)) // CAF would take what is thrown here
    broken_ = "I13: a message cannot leave its process: "
              + caf::to_string(what.payload) + ": "
              + caf::to_string(sink.get_error());
  auto& stream = control_[{viewer, to}];
  const auto arrives = arrival(stream, viewer, to);
  world_.at(arrives, [this, viewer, to, actor, sender = what.sender,
                      id = what.mid, generation = stream.generation,
                      bytes = std::move(bytes)] {
    if (control_[{viewer, to}].generation == generation)
      world_.in_process(to, 0, [this, viewer, actor, sender, id, bytes] {
        deliver(viewer, actor, sender, id, bytes);
      });
  });
}

void Network::deliver(uint32_t from, const caf::strong_actor_ptr& to,
                      const caf::strong_actor_ptr& sender, caf::message_id id,
                      const caf::byte_buffer& bytes) {
  caf::message content;
  caf::binary_deserializer source{world_.system(), bytes};
  if (!source.apply(content))
    throw Broken("I13: a message of our own is refused: "
                 + caf::to_string(source.get_error()));
  const auto process = world_.process_of(to);
  if (process == 0)
    return;
  if (world_.trace)
    world_.note(world_.name(from) + " -> " + world_.name(process) + ' '
                + caf::to_string(content));
  if (tap)
    tap(from, process, content);
  // A proxy is there for the answer as well.
  to->enqueue(seen_from(process, sender), id, std::move(content), nullptr);
}

/// What the viewer sees of the other's actors is gone.
void Network::lose(uint32_t viewer, uint32_t other, uint64_t delay,
                   const std::string& why) {
  for (auto at = wires_.begin(); at != wires_.end();) {
    const auto& wire =
      *static_cast<Wire*>(caf::actor_cast<caf::abstract_actor*>(at->second));
    if (wire.viewer() != viewer || world_.process_of(wire.actor()) != other) {
      ++at;
      continue;
    }
    world_.in_process(viewer, delay, [gone = at->second, why] {
      static_cast<Wire*>(caf::actor_cast<caf::abstract_actor*>(gone))
        ->kill_proxy(nullptr,
                     caf::make_error(caf::sec::remote_lookup_failed, why));
    });
    at = wires_.erase(at); // the next message finds it again
  }
}

/// Of what it has sent on a connection, all or nothing arrives.
void Network::died(uint32_t process) {
  auto& draw = world_.random();
  std::map<uint32_t, uint64_t> last;
  for (auto& [ends, stream] : control_)
    if (ends.second == process || (ends.first == process && draw.chance(50)))
      ++stream.generation;
    else if (ends.first == process)
      last[ends.second] = stream.last;
  std::set<uint32_t> viewers;
  for (const auto& [key, wire] : wires_)
    viewers.insert(key.first);
  for (auto viewer : viewers)
    if (viewer != process) {
      const auto then = std::max(last[viewer], world_.now());
      lose(viewer, process,
           then - world_.now()
             + draw.between(sim::end_notice[0], sim::end_notice[1]),
           "its process ended");
    }
  std::erase_if(wires_,
                [&](const auto& x) { return x.first.first == process; });
  acceptors_.erase(process);
  for (size_t link = 0; link < links_.size(); ++link)
    for (int side = 0; side < 2; ++side)
      if (links_[link].process[side] == process && links_[link].end[side]) {
        carry(link, side); // what it has written is the network's
        close(link, side);
        end_of_stream(link, 1 - side, draw.chance(50));
      }
}

void Network::block(uint32_t a, uint32_t b, uint64_t until) {
  auto& time = blocked_[{a, b}];
  time = std::max(time, until);
}

void Network::slow(uint64_t until, uint64_t extra) {
  slow_until_ = until;
  slow_extra_ = extra;
}

bool Network::cut_control(uint32_t a, uint32_t b) {
  if (!control_.contains({a, b}) && !control_.contains({b, a}))
    return false;
  ++control_[{a, b}].generation;
  ++control_[{b, a}].generation;
  auto& draw = world_.random();
  lose(a, b, draw.between(sim::end_notice[0], sim::end_notice[1]),
       "the connection was lost");
  lose(b, a, draw.between(sim::end_notice[0], sim::end_notice[1]),
       "the connection was lost");
  return true;
}

} // namespace troupe::real
