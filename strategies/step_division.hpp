#pragma once

#include "strategies/rank_tree.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// What one member brings to a step that all reduce together; not to be taken
/// for the shares of a step of k of n (StepShares).
struct MemberNodes {
  std::vector<RankRange> held; ///< nodes whose sums it has already
  std::vector<RankRange> left; ///< nodes that it computes; left to right
  friend bool operator==(const MemberNodes&, const MemberNodes&) = default;
};

/// A member as it begins an epoch: what it owns, and what it has of the step.
struct StepMember {
  RankRange ranks;             ///< owned in this epoch
  std::vector<RankRange> held; ///< nodes that it computed before it began
};

/// How the nodes of a step are cut.
struct DivisionOptions {
  uint32_t virtual_ranks = 1;
  /// A member's ranks are one node, in no tree: any order of sums will do.
  bool any_order = false;
  /// A member with fewer nodes cuts them further, where it holds none.
  uint32_t wanted = 1;
  uint32_t most = ~uint32_t{0}; ///< nodes that a member has room for
};

/// Divides the tree of a step among members that begin an epoch with it: each
/// keeps the sums it holds, whoever owns their ranks now, and computes those of
/// its ranks that nobody holds (PROTOCOL 9). Where a member would have more
/// nodes than there is room for, or sums are in any order, all compute their
/// own ranks again. All members find the same.
std::vector<MemberNodes> divide_step(const std::vector<StepMember>& members,
                                     const DivisionOptions& options);

/// The most nodes that a member ever computes of its ranks.
uint32_t max_nodes(const DivisionOptions& options);

/// What each member brings, in the order of its vectors.
std::vector<std::vector<RankRange>>
nodes_of(const std::vector<MemberNodes>& shares);

} // namespace troupe
