#pragma once

#include "actors/links/message_link.hpp"

#include <caf/actor_proxy.hpp>

#include <string>

namespace troupe {

/// Stands for an actor of another process: what is sent to it leaves on a link,
/// from the sender's thread. So an actor need not know whether its peer is
/// here or there, and a dead link is a down message to whoever monitors the
/// peer. A message of another type than LinkMessage's is refused.
class LinkProxy : public caf::actor_proxy {
public:
  LinkProxy(caf::actor_config& config, std::shared_ptr<MessageLink> link);

  const char* name() const override { return "link"; }
  bool enqueue(caf::mailbox_element_ptr what,
               caf::execution_unit* host) override;
  void kill_proxy(caf::execution_unit* host, caf::error why) override;
  const MessageLink& link() const { return *link_; }

private:
  std::shared_ptr<MessageLink> link_;
};

/// A handle to the peer of a link.
caf::strong_actor_ptr make_link_proxy(caf::actor_system& system,
                                      std::shared_ptr<MessageLink> link);

/// Bytes that wait on the link to a peer, for credit or for the socket; 0 where
/// it is in this process.
uint64_t queued_bytes(const caf::strong_actor_ptr& peer);

/// Delivers a message to `target` as if `proxy` had sent it.
void deliver(LinkMessage&& message, const caf::strong_actor_ptr& proxy,
             const caf::strong_actor_ptr& target);

/// The link is down: tells those who monitor the proxy.
void end_link_proxy(const caf::strong_actor_ptr& proxy,
                    const std::string& line);

/// That line again, read from a down message's reason.
std::string why_link_ended(const caf::error& reason);

} // namespace troupe
