#include "strategies/step_division.hpp"

#include "strategies/takeover.hpp"
#include "strategies/tree_addends.hpp"

#include <algorithm>
#include <bit>

namespace troupe {
namespace {

std::vector<RankRange> whole_nodes(RankRange ranks,
                                   const DivisionOptions& options) {
  if (options.any_order)
    return {ranks};
  return split_nodes(maximal_nodes(ranks, options.virtual_ranks),
                     options.wanted);
}

/// Empty: a member has no room for all.
std::vector<MemberNodes> repaired(const std::vector<StepMember>& members,
                                  const DivisionOptions& options) {
  std::vector<RankRange> held;
  for (const auto& member : members)
    held.insert(held.end(), member.held.begin(), member.held.end());
  const auto missing = missing_ranks(held, options.virtual_ranks);
  std::vector<MemberNodes> out;
  for (const auto& member : members) {
    MemberNodes share{member.held, {}};
    for (auto range : takeover_ranks(member.ranks, missing))
      for (auto node : maximal_nodes(range, options.virtual_ranks))
        share.left.push_back(node);
    if (share.held.size() + share.left.size() > options.most)
      return {};
    out.push_back(std::move(share));
  }
  return out;
}

} // namespace

std::vector<MemberNodes> divide_step(const std::vector<StepMember>& members,
                                     const DivisionOptions& options) {
  const bool any_held = std::ranges::any_of(
    members, [](const StepMember& member) { return !member.held.empty(); });
  if (any_held && !options.any_order)
    if (auto found = repaired(members, options); !found.empty())
      return found;
  std::vector<MemberNodes> out;
  for (const auto& member : members)
    out.push_back({{}, whole_nodes(member.ranks, options)});
  return out;
}

uint32_t max_nodes(const DivisionOptions& options) {
  if (options.any_order)
    return 1;
  // A range of leaves takes at most two nodes of each level of the tree.
  const uint32_t levels = std::bit_width(options.virtual_ranks);
  return std::min(options.virtual_ranks, std::max(options.wanted, 2 * levels));
}

std::vector<std::vector<RankRange>>
nodes_of(const std::vector<MemberNodes>& shares) {
  std::vector<std::vector<RankRange>> out;
  for (const auto& share : shares) {
    out.push_back(share.held);
    out.back().insert(out.back().end(), share.left.begin(), share.left.end());
  }
  return out;
}

} // namespace troupe
