#pragma once

#include "actors/certificates/member_name.hpp"
#include "actors/links/link_node.hpp"
#include "actors/links/message_link.hpp"
#include "actors/wire/messages.hpp"
#include "kernels/base/steady_clock.hpp"
#include "monitoring/metrics.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe {

/// The message links of a process: opens and accepts them, drives them on the
/// links' one thread and gives each peer an actor handle.
class MessageLinks {
public:
  using Log = std::function<void(const std::string& line)>;

  /// `log` is told of peers that broke the rules, one line each, from the
  /// links' thread; empty: nobody is.
  MessageLinks(caf::actor_system& system, LinkNode& node,
               std::shared_ptr<MetricRegistry> metrics, Log log = {});
  /// Does what end() does.
  ~MessageLinks();
  /// Ends all links, which must be before the node and the actor system end.
  /// Whoever asks for a link after it is told so.
  void end();
  /// Breaks one of the links, whose number counts modulo how many there are:
  /// both ends lose their peer. From any thread; soon.
  void cut(uint32_t which);
  MessageLinks(const MessageLinks&) = delete;
  MessageLinks& operator=(const MessageLinks&) = delete;

  /// Memory that was sent from may change from here on. Links to everybody else
  /// end at once; what is half sent to these is sent as it is. From any thread.
  void keep_only(const std::set<std::string>& peers);

  /// Where tensors are to lie that peers on this host get without a copy; may
  /// be null.
  std::shared_ptr<LinkMemory> memory() const;

  /// What the local actor of a link takes from it.
  struct Terms {
    std::vector<MessageKind> accepted;
    uint64_t window_bytes = uint64_t{32} << 20;
    SliceRanks ranks{}; ///< of what it sends
    /// Whose streams are accepted; empty: those of all members.
    std::optional<MemberName::Kind> peers{};
  };

  /// Delivers to `target` what arrives on streams opened to `name`; the sender
  /// is a handle to the peer, on which answers travel back.
  void accept(const std::string& name, const Terms& terms,
              const caf::strong_actor_ptr& target);

  struct Request {
    Fence fence;
    std::string name;     ///< that the peer accepts under
    std::string endpoint; ///< of the peer's process
    std::string from;     ///< for people: "worker:1"
    std::string to;       ///< for people: "ps:0"
    Terms terms;
    caf::strong_actor_ptr target; ///< gets what arrives
    SteadyClock::time_point deadline;
  };
  /// Links `target` to a peer.
  /// Completion: done() once, from the links' thread: a handle to the peer,
  /// or null and why, one line.
  void connect(
    Request request,
    std::function<void(caf::strong_actor_ptr peer, const std::string& error)>
      done);

private:
  struct State;
  std::shared_ptr<State> state_;
};

} // namespace troupe
