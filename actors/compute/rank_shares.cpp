#include "actors/compute/rank_shares.hpp"

#include "kernels/base/require.hpp"

#include <utility>

namespace troupe {

RankShare RankShares::take_sum() {
  auto sum = sum_of({0, virtual_ranks_});
  kernels::require(sum.has_value(), "a sum over no virtual ranks");
  shares_.clear();
  return std::move(*sum);
}

/// Nothing: no rank of the node has samples.
std::optional<RankShare> RankShares::sum_of(RankRange node) {
  if (node.size() == 1) {
    const auto found = shares_.find(node.lo);
    return found == shares_.end() ? std::nullopt : std::optional{found->second};
  }
  const auto [left, right] = children(node);
  auto sum = sum_of(left);
  auto other = sum_of(right);
  if (!sum || !other)
    return sum ? sum : other;
  kernels::require(sum->values.size() == other->values.size(),
                   "ranks at different operators");
  for (size_t i = 0; i < sum->values.size(); ++i)
    sum->values[i] += other->values[i];
  sum->rows += other->rows;
  return sum;
}

} // namespace troupe
