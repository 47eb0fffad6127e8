#include "strategies/rank_tree.hpp"

#include "strategies/require.hpp"

#include <bit>

namespace troupe {

namespace {

void collect(RankRange node, RankRange range, std::vector<RankRange>& out) {
  if (node.hi <= range.lo || range.hi <= node.lo)
    return;
  if (range.covers(node)) {
    out.push_back(node);
    return;
  }
  // A leaf that overlaps the range is covered by it, so this node has children.
  auto [left, right] = children(node);
  collect(left, range, out);
  collect(right, range, out);
}

} // namespace

std::pair<RankRange, RankRange> children(RankRange node) {
  strategies::require(node.lo < node.hi && node.size() > 1,
                      "only a node of two or more ranks has children");
  auto middle = node.lo + std::bit_floor(node.size() - 1);
  return {RankRange{node.lo, middle}, RankRange{middle, node.hi}};
}

bool is_node(RankRange range, uint32_t virtual_ranks) {
  auto node = RankRange{0, virtual_ranks};
  if (range.empty() || !node.covers(range))
    return false;
  while (node != range) {
    auto [left, right] = children(node);
    if (left.covers(range))
      node = left;
    else if (right.covers(range))
      node = right;
    else
      return false;
  }
  return true;
}

std::vector<RankRange> maximal_nodes(RankRange range, uint32_t virtual_ranks) {
  std::vector<RankRange> out;
  if (virtual_ranks > 0 && !range.empty())
    collect(RankRange{0, virtual_ranks}, range, out);
  return out;
}

RankRange ranks_of_worker(uint32_t index, uint32_t workers,
                          uint32_t virtual_ranks) {
  strategies::require(index < workers, "the worker's index is out of range");
  auto cut = [&](uint64_t i) {
    return static_cast<uint32_t>(i * virtual_ranks / workers);
  };
  return {cut(index), cut(uint64_t{index} + 1)};
}

} // namespace troupe
