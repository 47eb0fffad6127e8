#include "strategies/step_ledger.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

namespace troupe {

namespace {

struct Family {
  RankRange left;
  RankRange right;
  RankRange parent;
};

/// Returns the node's parent and both its children; nothing for the root.
std::optional<Family> family(RankRange node, uint32_t virtual_ranks) {
  auto parent = RankRange{0, virtual_ranks};
  if (node == parent)
    return std::nullopt;
  for (;;) {
    auto [left, right] = children(parent);
    if (node == left || node == right)
      return Family{left, right, parent};
    parent = left.covers(node) ? left : right;
  }
}

} // namespace

StepLedger::StepLedger(uint32_t virtual_ranks, uint64_t version)
  : virtual_ranks_(virtual_ranks), version_(version) {
  strategies::require(virtual_ranks > 0, "a job needs a virtual rank");
}

StepLedger::Decision StepLedger::offer(uint64_t step, RankRange node) {
  strategies::require(is_node(node, virtual_ranks_),
                      "the pushed range is no node of the tree");
  if (step < version_)
    return {Verdict::stale, "the step is applied already", {}, {}};
  if (step > version_)
    return {Verdict::ahead, "an earlier step is not applied yet", {}, {}};
  // Siblings never stay side by side, so a node whose leaves are all held is
  // covered by one held node. Nodes nest or are disjoint: what starts inside
  // the node lies inside it.
  auto first = std::ranges::lower_bound(held_, node.lo, {}, &RankRange::lo);
  auto covered = first != held_.end() && first->covers(node);
  if (!covered && first != held_.begin())
    covered = std::prev(first)->covers(node);
  if (covered)
    return {Verdict::duplicate, "its virtual ranks are held already", {}, {}};
  auto last = std::ranges::lower_bound(held_, node.hi, {}, &RankRange::lo);
  Decision out{Verdict::accept, "new", {first, last}, {}};
  if (!out.replaced.empty())
    out.reason = "new, supersedes parts of it";
  auto at = first - held_.begin();
  held_.insert(held_.erase(first, last), node);
  while (auto kin = family(held_[at], virtual_ranks_)) {
    auto left = held_[at] == kin->left ? at : at - 1;
    auto right = left + 1;
    if (left < 0 || right == std::ssize(held_) || held_[left] != kin->left
        || held_[right] != kin->right)
      break;
    out.combines.push_back({kin->left, kin->right, kin->parent});
    held_[left] = kin->parent;
    held_.erase(held_.begin() + right);
    at = left;
  }
  return out;
}

bool StepLedger::complete() const {
  return held_.size() == 1 && held_.front() == RankRange{0, virtual_ranks_};
}

void StepLedger::advance() {
  strategies::require(complete(), "an incomplete step cannot be applied");
  reset(version_ + 1);
}

void StepLedger::reset(uint64_t version) {
  held_.clear();
  version_ = version;
}

namespace {

/// Of a node of the tree: sums below it, or its own, in their order of time.
struct SumsOfNode {
  uint64_t waiting = 0; ///< most, before all of it was pushed
  uint64_t done = 0;    ///< once all was: none of a node that is pushed itself
  uint64_t most = 0;    ///< at any moment
};

/// Siblings are added as soon as both are there, each in its own time.
SumsOfNode sums_of(RankRange node, const std::vector<RankRange>& pushed) {
  if (std::ranges::binary_search(pushed, node))
    return {};
  const auto [first, second] = children(node);
  const auto left = sums_of(first, pushed);
  const auto right = sums_of(second, pushed);
  return {std::max({left.waiting + right.waiting, left.done + right.waiting,
                    left.waiting + right.done}),
          1,
          std::max({left.most + std::max(right.waiting, right.done),
                    std::max(left.waiting, left.done) + right.most,
                    left.done + right.done + 1})};
}

} // namespace

uint64_t max_sums_at_once(std::vector<RankRange> pushed,
                          uint32_t virtual_ranks) {
  std::ranges::sort(pushed);
  return sums_of({0, virtual_ranks}, pushed).most;
}

} // namespace troupe
