#pragma once

#include "strategies/rank_tree.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// What is left to compute of a step when members have come or gone. Survivors
/// keep what they have of it, owners keep what has reached them; only virtual
/// ranks that neither has are computed again, by who owns them now.

/// Returns the ranks of [0, virtual_ranks) that no range of `held` covers, in
/// ascending ranges that do not touch.
std::vector<RankRange> missing_ranks(const std::vector<RankRange>& held,
                                     uint32_t virtual_ranks);

/// Returns what lies in both `own` and one of `missing`: what the owner of
/// `own` computes of the step.
std::vector<RankRange> takeover_ranks(RankRange own,
                                      const std::vector<RankRange>& missing);

} // namespace troupe
