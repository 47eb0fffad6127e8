#pragma once

#include "actors/links/link_proxy.hpp"
#include "actors/links/message_links.hpp"
#include "tests/sim/real/world.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe::real {

/// What lies between the processes of a World. Control messages are CAF's: each
/// process has a proxy of an actor elsewhere, messages travel as the bytes that
/// CAF's serialisation makes of them, and a proxy whose actor is gone, or not
/// reachable, tells those who monitor it. Links are the product's MessageLink
/// over a socket, whose bytes are carried to the other one after a delay.
class Network {
public:
  explicit Network(World& world);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  static Network& get();

  /// How `viewer` sees an actor of another process.
  caf::strong_actor_ptr seen_from(uint32_t viewer,
                                  const caf::strong_actor_ptr& actor);
  /// Sends as the viewer's own actors do.
  void send(uint32_t viewer, const caf::strong_actor_ptr& actor,
            const caf::mailbox_element& what);

  /// Who takes the links that are opened to a process.
  void accept(uint32_t process, const MessageLinks::Terms& terms,
              const caf::strong_actor_ptr& target);
  using Linked =
    std::function<void(caf::strong_actor_ptr peer, const std::string& error)>;
  void link(uint32_t process, MessageLinks::Request request, Linked done);
  /// Links grant no more than so much: little, for jobs as small as these.
  void narrow(uint64_t window_bytes) { max_window_ = window_bytes; }
  /// Links to nobody, made for the one who spawns.
  static std::shared_ptr<MessageLinks> links(caf::actor_system& system);

  // --- faults ---------------------------------------------------------------

  /// Nothing gets from `a` to `b` until then; it is not lost.
  void block(uint32_t a, uint32_t b, uint64_t until);
  /// Until then everything takes longer, by up to so much.
  void slow(uint64_t until, uint64_t extra);
  size_t cut_links(uint32_t a, uint32_t b);
  bool cut_control(uint32_t a, uint32_t b);
  /// The next bytes from `a` to `b` on a link are not what was sent.
  bool corrupt(uint32_t a, uint32_t b);
  uint64_t corrupted() const { return corrupted_; }
  uint64_t control_messages() const { return control_messages_; }
  uint64_t link_bytes() const { return link_bytes_; }

  /// Is shown each control message that arrives, and each of a link.
  std::function<void(uint32_t from, uint32_t to, const caf::message&)> tap;
  std::function<void(uint32_t to, const LinkMessage&)> tap_link;
  /// Is shown each control message as it leaves.
  std::function<void(const caf::message&)> tap_sent;

private:
  class Wire;
  class Proxy;
  struct Stream {
    uint64_t last = 0;       ///< arrival of the newest
    uint64_t generation = 0; ///< counts cuts
  };
  /// Side i's actor sends to proxy[i].
  struct Link {
    uint32_t process[2];
    int outer[2] = {-1, -1}; ///< the network's end of each side's socket
    std::shared_ptr<MessageLink> end[2];
    caf::strong_actor_ptr proxy[2];
    caf::weak_actor_ptr target[2];
    Stream stream[2]; ///< from side i
    bool corrupts[2] = {false, false};
  };
  struct Acceptor {
    MessageLinks::Terms terms;
    caf::strong_actor_ptr target;
  };

  uint64_t arrival(Stream& stream, uint32_t from, uint32_t to);
  uint64_t way(uint32_t from, uint32_t to);
  void died(uint32_t process);
  void lose(uint32_t viewer, uint32_t other, uint64_t delay,
            const std::string& why);
  void deliver(uint32_t from, const caf::strong_actor_ptr& to,
               const caf::strong_actor_ptr& sender, caf::message_id id,
               const caf::byte_buffer& bytes);
  void make_link(uint32_t process, uint32_t peer,
                 const MessageLinks::Request& request, const Linked& done);
  void make_end(size_t link, int side, const std::string& peer,
                const MessageLinks::Terms& terms,
                const caf::strong_actor_ptr& target);
  void touch(size_t link, int side) { touched_.insert({link, side}); }
  void flush();
  void carry(size_t link, int side);
  void arrive(size_t link, int side, std::vector<std::byte> bytes);
  void settle(size_t link, int side);
  void close(size_t link, int side);
  /// The socket of that side ends, after a while; what is under way to it
  /// arrives before, or is lost.
  void end_of_stream(size_t link, int side, bool loses);

  World& world_;
  std::map<std::pair<uint32_t, caf::actor_id>, caf::strong_actor_ptr> wires_;
  std::map<std::pair<uint32_t, uint32_t>, Stream> control_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> blocked_;
  std::map<uint32_t, Acceptor> acceptors_;
  std::vector<Link> links_;
  std::set<std::pair<size_t, int>> touched_;
  std::string broken_;
  uint64_t max_window_ = ~uint64_t{0};
  uint64_t slow_until_ = 0, slow_extra_ = 0;
  uint64_t corrupted_ = 0, control_messages_ = 0, link_bytes_ = 0;
};

} // namespace troupe::real
