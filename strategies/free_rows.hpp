#pragma once

#include "strategies/leases.hpp"
#include "strategies/rank_tree.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// Rows of sparse tables that run free beside dense variables which all workers
/// step in common: each virtual rank's rows of step s are a lease of their own,
/// s V + rank, applied on arrival. A slice of rows is *through* a step when all
/// leases of it and of the steps before are in.

/// Each virtual rank by itself.
std::vector<RankRange> leaves_of(uint32_t virtual_ranks);

/// The first step that the slice is not through.
uint64_t steps_through(const LeaseSet& applied, uint32_t virtual_ranks);

/// What every slice has that is through the steps before `step`, and no more.
LeaseSet leases_before(uint64_t step, uint32_t virtual_ranks);

/// Tells whether rows may be read for `step`: the slice is at most `bound`
/// steps behind, that is, through all steps before step - bound.
bool may_read(const LeaseSet& applied, uint64_t step, uint64_t bound,
              uint32_t virtual_ranks);

/// Leaves of a step whose rows died with a push, or with who was to make it.
struct LostLeaves {
  uint64_t step = 0;
  std::vector<RankRange> leaves; ///< single ranks, rising
  friend bool operator==(const LostLeaves&, const LostLeaves&) = default;
};

/// What the owner of `ranks` computes once more when an epoch begins at `step`:
/// leaves of the steps before it that some slice has not applied. Those that
/// have drop the push. Of `step` itself nothing is lost: it is not over. `held`
/// by slice; empty: nothing is lost. Rising.
std::vector<LostLeaves> lost_leaves(const std::vector<LeaseSet>& held,
                                    uint64_t step, RankRange ranks,
                                    uint32_t virtual_ranks);

} // namespace troupe
