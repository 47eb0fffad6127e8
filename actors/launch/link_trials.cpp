#include "actors/launch/link_trials.hpp"

#include <atomic>
#include <memory>
#include <utility>

namespace troupe {
namespace {

/// The system's own tries come ever later, also once a cable is whole again.
constexpr auto trial_deadline = std::chrono::seconds{2};

struct Outcome {
  std::atomic<size_t> under_way;
  std::atomic<bool> all{true};
  std::function<void(bool)> reached;
};

} // namespace

void LinkTrials::use(LinkNode* node) {
  std::lock_guard lock{mutex_};
  node_ = node;
}

void LinkTrials::run(RoleId role, const std::vector<LinkedRole>& others,
                     std::function<void(bool all)> reached) {
  std::unique_lock lock{mutex_};
  if (node_ == nullptr || others.empty()) {
    lock.unlock();
    reached(others.empty());
    return;
  }
  auto outcome = std::make_shared<Outcome>();
  outcome->under_way = others.size();
  outcome->reached = std::move(reached);
  for (const auto& other : others)
    node_->try_link({to_string(role), other.links, to_string(other.role),
                     IoLoop::Clock::now() + trial_deadline},
                    [outcome](bool works) {
                      if (!works)
                        outcome->all = false;
                      if (--outcome->under_way == 0)
                        outcome->reached(outcome->all);
                    });
}

} // namespace troupe
