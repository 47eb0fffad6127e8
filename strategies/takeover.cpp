#include "strategies/takeover.hpp"

#include <algorithm>

namespace troupe {

std::vector<RankRange> missing_ranks(const std::vector<RankRange>& held,
                                     uint32_t virtual_ranks) {
  auto sorted = held;
  std::ranges::sort(sorted);
  std::vector<RankRange> out;
  uint32_t from = 0;
  for (auto range : sorted) {
    if (range.lo > from)
      out.push_back({from, std::min(range.lo, virtual_ranks)});
    from = std::max(from, range.hi);
  }
  if (from < virtual_ranks)
    out.push_back({from, virtual_ranks});
  return out;
}

std::vector<RankRange> takeover_ranks(RankRange own,
                                      const std::vector<RankRange>& missing) {
  std::vector<RankRange> out;
  for (auto range : missing) {
    const RankRange both{std::max(own.lo, range.lo),
                         std::min(own.hi, range.hi)};
    if (!both.empty())
      out.push_back(both);
  }
  return out;
}

} // namespace troupe
