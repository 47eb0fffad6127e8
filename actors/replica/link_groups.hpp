#pragma once

#include "actors/links/link_node.hpp"
#include "actors/replica/group.hpp"

#include <memory>
#include <mutex>
#include <string>

namespace troupe {

/// What to say where --compress has nothing to save; empty: it has.
std::string needless_compression(const JobOptions& options);

/// Where replicas in processes of their own meet: over shared memory when all
/// are on one host, else over streams.
class LinkGroups : public GroupMaker {
public:
  /// The node outlives it. `metrics` has what links over TCP carry.
  LinkGroups(LinkNode& node, std::shared_ptr<const Job> job,
             std::shared_ptr<MetricRegistry> metrics);

  void form(GroupWish wish,
            std::function<void(std::shared_ptr<ReplicaGroup>)> done) override;

private:
  LinkNode& node_;
  std::shared_ptr<const Job> job_;
  std::shared_ptr<MetricRegistry> metrics_;
  std::shared_ptr<std::once_flag> told_ = std::make_shared<std::once_flag>();
};

} // namespace troupe
