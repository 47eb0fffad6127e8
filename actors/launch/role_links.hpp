#pragma once

#include "actors/launch/link_trials.hpp"
#include "actors/links/link_node.hpp"
#include "actors/links/message_links.hpp"

#include <memory>
#include <utility>

namespace troupe {

/// The links of a role's process. Must end before the actor system; the role
/// may still have messages(), which do nothing then.
class RoleLinks {
public:
  /// From here on `trials` are made from its node, until its end.
  /// Errors: InputError as LinkNode.
  RoleLinks(caf::actor_system& system, LinkOptions options,
            std::shared_ptr<MetricRegistry> metrics,
            std::shared_ptr<LinkTrials> trials)
    : node_(options),
      messages_(std::make_shared<MessageLinks>(
        system, node_, std::move(metrics), std::move(options.log))),
      trials_(std::move(trials)) {
    trials_->use(&node_);
  }
  ~RoleLinks() {
    trials_->use(nullptr);
    messages_->end();
  }
  RoleLinks(const RoleLinks&) = delete;
  RoleLinks& operator=(const RoleLinks&) = delete;

  LinkNode& node() { return node_; }
  const std::shared_ptr<MessageLinks>& messages() const { return messages_; }

private:
  LinkNode node_;
  std::shared_ptr<MessageLinks> messages_;
  std::shared_ptr<LinkTrials> trials_;
};

} // namespace troupe
