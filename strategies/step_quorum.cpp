#include "strategies/step_quorum.hpp"

#include "strategies/require.hpp"

#include <algorithm>

namespace troupe {

StepQuorum::StepQuorum(std::vector<RankRange> shares, uint32_t backups)
  : shares_(std::move(shares)), backups_(backups) {
  strategies::require(shares_.size() > backups,
                      "a step needs more shares than backups");
  uint32_t end = 0;
  for (auto share : shares_) {
    strategies::require(share.lo == end && !share.empty(),
                        "shares cover the virtual ranks in order");
    end = share.hi;
  }
  arrived_.assign(end, false);
}

std::vector<RankRange> StepQuorum::offer(uint64_t step, RankRange node) {
  strategies::require(node.hi <= arrived_.size(), "a node beyond the ranks");
  if (step > step_) {
    step_ = step;
    forget();
  }
  if (step < step_ || decided_)
    return {};
  std::fill(arrived_.begin() + node.lo, arrived_.begin() + node.hi, true);
  std::vector<RankRange> included;
  std::ranges::copy_if(shares_, std::back_inserter(included),
                       [this](RankRange share) { return whole(share); });
  if (included.size() + backups_ < shares_.size())
    return {};
  decided_ = true;
  return included;
}

void StepQuorum::forget() {
  decided_ = false;
  std::fill(arrived_.begin(), arrived_.end(), false);
}

bool StepQuorum::whole(RankRange share) const {
  return std::all_of(arrived_.begin() + share.lo, arrived_.begin() + share.hi,
                     [](bool there) { return there; });
}

std::vector<RankRange> nodes_of_shares(RankRange ranks,
                                       const std::vector<RankRange>& shares,
                                       uint32_t virtual_ranks) {
  std::vector<RankRange> out;
  for (auto share : shares) {
    const RankRange both{std::max(ranks.lo, share.lo),
                         std::min(ranks.hi, share.hi)};
    if (!both.empty())
      std::ranges::copy(maximal_nodes(both, virtual_ranks),
                        std::back_inserter(out));
  }
  return out;
}

std::vector<RankRange> left_out(const std::vector<RankRange>& included,
                                const std::vector<RankRange>& shares,
                                uint32_t virtual_ranks) {
  std::vector<RankRange> out;
  for (auto share : shares)
    if (std::ranges::find(included, share) == included.end())
      std::ranges::copy(maximal_nodes(share, virtual_ranks),
                        std::back_inserter(out));
  return out;
}

} // namespace troupe
