#include "actors/compute/leaf_tree.hpp"

#include "kernels/base/require.hpp"
#include "kernels/cpu/vector_loops.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

void LeafTree::begin(const std::vector<uint32_t>& samples) {
  begin(samples, {0, static_cast<uint32_t>(samples.size())});
}

void LeafTree::begin(const std::vector<uint32_t>& samples, RankRange own) {
  own_ = own;
  for (auto& [node, sum] : sums_)
    idle_.push_back(std::move(sum));
  for (auto& [rank, leaf] : written_)
    idle_.push_back(std::move(leaf));
  sums_.clear();
  written_.clear();
  missing_.clear();
  for (auto count : samples)
    missing_.push_back(count > 0 ? 1 : 0);
}

float* LeafTree::next(uint32_t rank) {
  auto& leaf = written_[rank];
  if (!leaf && !idle_.empty()) {
    leaf = std::move(idle_.back());
    idle_.pop_back();
  } else if (!leaf) {
    leaf = std::make_unique<Buffer>(count_);
    leaf->fill(0);
  }
  return leaf->data();
}

void LeafTree::put(uint32_t rank) {
  auto leaf = written_.extract(rank);
  kernels::require(rank < missing_.size() && missing_[rank] != 0 && leaf,
                   "a leaf that nobody waits for");
  missing_[rank] = 0;
  sums_[{rank, rank + 1}] = std::move(leaf.mapped());
  std::vector<RankRange> above;
  RankRange node{0, static_cast<uint32_t>(missing_.size())};
  while (node.size() > 1) {
    above.push_back(node);
    const auto [left, right] = children(node);
    node = rank < left.hi ? left : right;
  }
  for (auto at = above.rbegin();
       at != above.rend() && own_.covers(*at) && is_whole(*at); ++at)
    merge(*at);
}

bool LeafTree::is_whole(RankRange node) const {
  return std::none_of(missing_.begin() + node.lo, missing_.begin() + node.hi,
                      [](uint8_t missing) { return missing != 0; });
}

/// What a child without a leaf gives is nothing, not zeros.
void LeafTree::merge(RankRange node) {
  const auto [left, right] = children(node);
  auto a = sums_.extract(left);
  auto b = sums_.extract(right);
  if (a.empty())
    std::swap(a, b);
  if (a.empty())
    return;
  if (!b.empty()) {
    add(a.mapped()->data(), b.mapped()->data(), a.mapped()->data(), count_);
    idle_.push_back(std::move(b.mapped()));
  }
  sums_[node] = std::move(a.mapped());
}

const float* LeafTree::root() const {
  return sum({0, static_cast<uint32_t>(missing_.size())});
}

const float* LeafTree::sum(RankRange node) const {
  const auto found = sums_.find(node);
  kernels::require(found != sums_.end(), "a sum that is not whole");
  return found->second->data();
}

} // namespace troupe
