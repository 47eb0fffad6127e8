#include "actors/control/known_nodes.hpp"

namespace troupe {

bool KnownNodes::belongs(const caf::node_id& node, const MemberName& member) {
  const std::lock_guard guard{mutex_};
  const auto [found, added] = members_.try_emplace(node, member);
  if (!added)
    return found->second == member;
  order_.push_back(node);
  if (order_.size() > most) {
    members_.erase(order_.front());
    order_.pop_front();
  }
  return true;
}

} // namespace troupe
