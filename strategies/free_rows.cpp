#include "strategies/free_rows.hpp"

#include <algorithm>

namespace troupe {

std::vector<RankRange> leaves_of(uint32_t virtual_ranks) {
  std::vector<RankRange> out;
  for (uint32_t rank = 0; rank < virtual_ranks; ++rank)
    out.push_back({rank, rank + 1});
  return out;
}

uint64_t steps_through(const LeaseSet& applied, uint32_t virtual_ranks) {
  return applied.floor() / virtual_ranks;
}

LeaseSet leases_before(uint64_t step, uint32_t virtual_ranks) {
  return {step * virtual_ranks, {}};
}

bool may_read(const LeaseSet& applied, uint64_t step, uint64_t bound,
              uint32_t virtual_ranks) {
  return step <= bound || steps_through(applied, virtual_ranks) >= step - bound;
}

std::vector<LostLeaves> lost_leaves(const std::vector<LeaseSet>& held,
                                    uint64_t step, RankRange ranks,
                                    uint32_t virtual_ranks) {
  auto first = step;
  for (const auto& slice : held)
    first = std::min(first, steps_through(slice, virtual_ranks));
  std::vector<LostLeaves> out;
  for (auto before = first; before < step; ++before) {
    LostLeaves lost{before, {}};
    for (auto rank = ranks.lo; rank < ranks.hi; ++rank)
      if (!std::ranges::all_of(held, [&](const LeaseSet& slice) {
            return slice.contains(before * virtual_ranks + rank);
          }))
        lost.leaves.push_back({rank, rank + 1});
    if (!lost.leaves.empty())
      out.push_back(std::move(lost));
  }
  return out;
}

} // namespace troupe
