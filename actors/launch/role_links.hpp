#pragma once

#include "actors/links/link_node.hpp"
#include "actors/links/message_links.hpp"

#include <memory>
#include <utility>

namespace troupe {

/// The links of a role's process. Must end before the actor system; the role
/// may still have messages(), which do nothing then.
class RoleLinks {
public:
  /// Errors: InputError as LinkNode.
  RoleLinks(caf::actor_system& system, LinkOptions options,
            std::shared_ptr<MetricRegistry> metrics)
    : node_(options),
      messages_(std::make_shared<MessageLinks>(
        system, node_, std::move(metrics), std::move(options.log))) {}
  ~RoleLinks() { messages_->end(); }
  RoleLinks(const RoleLinks&) = delete;
  RoleLinks& operator=(const RoleLinks&) = delete;

  LinkNode& node() { return node_; }
  const std::shared_ptr<MessageLinks>& messages() const { return messages_; }

private:
  LinkNode node_;
  std::shared_ptr<MessageLinks> messages_;
};

} // namespace troupe
