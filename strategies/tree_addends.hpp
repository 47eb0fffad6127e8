#pragma once

#include "strategies/rank_tree.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// One addend of a step's sum, to be pushed on a stack: node `node` of member
/// `member`. Then `merges` times the two newest are replaced by their sum, the
/// older one on the left.
struct TreeAddend {
  uint32_t member = 0;
  uint32_t node = 0; ///< index into the member's nodes
  uint32_t merges = 0;

  friend bool operator==(const TreeAddend&, const TreeAddend&) = default;
};

/// Puts the fixed tree over V virtual ranks (PROTOCOL 3) into the order in
/// which a machine with a stack sums it. `nodes[m]` are the nodes that member m
/// brings; together they cover each rank exactly once. `filled[v]` tells
/// whether rank v has a sample in the step: a node without any is left out, for
/// the identity is not +0.0 (PROTOCOL 2).
/// Errors: nodes that overlap or leave a rank out are a bug and assert.
std::vector<TreeAddend>
tree_addends(const std::vector<std::vector<RankRange>>& nodes,
             const std::vector<bool>& filled);

/// Cuts nodes into their children, largest first, until there are `wanted` of
/// them or leaves only: more addends for whoever sums, fewer sums before.
std::vector<RankRange> split_nodes(std::vector<RankRange> nodes,
                                   uint32_t wanted);

} // namespace troupe
