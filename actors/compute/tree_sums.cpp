#include "actors/compute/tree_sums.hpp"

#include "kernels/base/require.hpp"
#include "kernels/cpu/vector_loops.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe {
namespace {

/// Which of two children the sum of both lies with: what one without samples
/// gives is nothing, not zeros. `add(a, b)`: a += b.
template <class Add>
TreeSums::Sum joined(TreeSums::Sum left, TreeSums::Sum right, Add add) {
  if (left.values == nullptr || right.values == nullptr)
    return left.values != nullptr ? left : right;
  add(left.values, right.values);
  return left;
}

} // namespace

std::optional<TreeSums::Sum> TreeSums::take(RankRange node) {
  auto found = done_.extract(node);
  if (found.empty())
    return {};
  return std::move(found.mapped());
}

/// Puts it where its sibling's thread finds it; or takes the sibling.
std::optional<TreeSums::Sum> TreeSums::meet(RankRange node, RankRange sibling,
                                            const Sum& sum) {
  const std::lock_guard lock{mutex_};
  auto other = take(sibling);
  if (!other)
    done_.emplace(node, sum);
  return other;
}

void TreeSums::put(uint32_t rank, Sum leaf, bool more) {
  std::vector<RankRange> above;
  for (auto node = node_; node.size() > 1;) {
    above.push_back(node);
    const auto [left, right] = children(node);
    node = rank < left.hi ? left : right;
  }
  RankRange node{rank, rank + 1};
  for (; more && !above.empty(); above.pop_back()) {
    const auto [left, right] = children(above.back());
    auto other = meet(node, node == left ? right : left, leaf);
    if (!other)
      return;
    if (node == right)
      std::swap(leaf, *other);
    leaf = joined(std::move(leaf), std::move(*other),
                  [&](float* a, float* b) { add(a, b, a, elements_); });
    node = above.back();
  }
  const std::lock_guard lock{mutex_};
  done_.emplace(node, std::move(leaf));
}

TreeSums::Sum TreeSums::whole(RankRange node, Executor& executor) {
  if (auto sum = take(node))
    return *sum;
  kernels::require(node.size() > 1, "a leaf that nobody has put in");
  const auto [left, right] = children(node);
  auto of_left = whole(left, executor);
  return joined(
    std::move(of_left), whole(right, executor), [&](float* a, const float* b) {
      constexpr size_t block = 64 << 10;
      executor.parallel_for((elements_ + block - 1) / block, [&](size_t i,
                                                                 uint32_t) {
        const auto at = i * block;
        add(a + at, b + at, a + at, std::min(block, elements_ - at));
      });
    });
}

} // namespace troupe
