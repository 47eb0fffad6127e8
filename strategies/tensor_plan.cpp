#include "strategies/tensor_plan.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <span>

namespace troupe {

RankRange slices_of_member(uint32_t index, uint32_t members, uint32_t slices) {
  strategies::require(members > 0 && slices % members == 0 && index < members,
                      "members that do not divide the virtual slices");
  const auto each = slices / members;
  return {index * each, (index + 1) * each};
}

std::optional<std::string> mistake_of_tensor(uint32_t members, uint32_t slices,
                                             const std::string& layout) {
  if (members == 0)
    return "no member that has slices: add --tensor 1 or more";
  const auto flags = (layout.empty() ? "--tensor " + std::to_string(members)
                                     : layout)
                     + " --virtual-slices " + std::to_string(slices);
  // A power of two for each is always a node.
  const auto fits = members * std::bit_ceil((slices + members - 1) / members);
  const auto advice = "; use --virtual-slices " + std::to_string(fits);
  if (slices % members != 0)
    return flags + ": each member has equally many slices" + advice;
  for (uint32_t index = 0; index < members; ++index)
    if (!is_node(slices_of_member(index, members, slices), slices))
      return flags
             + ": the tree over all slices does not add a member's up among "
               "themselves first"
             + advice;
  return std::nullopt;
}

std::vector<TensorDuty> tensor_duties(const std::vector<TensorOp>& ops,
                                      RankRange own, uint32_t slices) {
  const RankRange root{0, slices};
  std::vector<TensorDuty> duties;
  for (const auto& op : ops)
    if (!op.slices || own.covers(*op.slices))
      duties.push_back(TensorDuty::compute);
    else
      duties.push_back(*op.slices == root ? TensorDuty::exchange
                                          : TensorDuty::skip);
  return duties;
}

std::vector<TreeAddend> tensor_addends(uint32_t members, uint32_t slices) {
  std::vector<std::vector<RankRange>> nodes;
  for (uint32_t index = 0; index < members; ++index)
    nodes.push_back({slices_of_member(index, members, slices)});
  return tree_addends(nodes, std::vector<bool>(slices, true));
}

namespace {

/// By operator: the stage that it is with.
std::vector<uint32_t> stage_of_ops(const std::vector<OpRun>& runs, size_t ops) {
  std::vector<uint32_t> stages(ops, 0);
  for (const auto& run : runs)
    for (auto op = run.begin; op < run.end; ++op)
      stages[op] = run.stage;
  return stages;
}

/// By variable: the stage that keeps it.
std::map<uint32_t, uint32_t> keepers(const std::vector<TensorOp>& ops,
                                     const std::vector<uint32_t>& stages) {
  std::map<uint32_t, uint32_t> out;
  for (size_t i = 0; i < ops.size(); ++i)
    for (auto variable : ops[i].variables)
      out.try_emplace(variable, stages[i]);
  return out;
}

TensorShare member_share(const std::vector<TensorOp>& ops, RankRange own,
                         uint32_t slices, const std::vector<uint32_t>& stages,
                         uint32_t stage) {
  TensorShare share;
  share.slices = own;
  std::set<uint32_t> variables;
  const auto keeper = keepers(ops, stages);
  const auto duties = tensor_duties(ops, own, slices);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (stages[i] != stage)
      continue;
    const auto& op = ops[i];
    if (duties[i] == TensorDuty::compute) {
      for (auto variable : op.variables)
        if (keeper.at(variable) == stage)
          variables.insert(variable);
      share.flops += op.flops;
    } else if (duties[i] == TensorDuty::exchange) {
      const bool forward = op.kind == TensorOp::Kind::sums;
      ++(forward ? share.forward_sums : share.backward_sums);
      share.bytes += op.bytes;
    }
  }
  share.variables.assign(variables.begin(), variables.end());
  return share;
}

/// A seal tells what a member has by what it shows, so each shows something:
/// one that is left with nothing gets what another of its group shows beside
/// more.
void show_variables(std::span<TensorShare> group) {
  std::set<uint32_t> shown;
  for (auto& share : group)
    for (auto variable : share.variables)
      if (shown.insert(variable).second)
        share.shows.push_back(variable);
  for (auto& share : group) {
    const auto richest = std::ranges::max_element(
      group, {}, [](const TensorShare& x) { return x.shows.size(); });
    if (!share.shows.empty() || richest->shows.size() < 2)
      continue;
    const auto found =
      std::ranges::find_if(richest->shows, [&](uint32_t variable) {
        return std::ranges::binary_search(share.variables, variable);
      });
    if (found == richest->shows.end())
      continue;
    share.shows.push_back(*found);
    richest->shows.erase(found);
  }
}

} // namespace

std::vector<TensorShare> tensor_shares(const std::vector<TensorOp>& ops,
                                       uint32_t members, uint32_t slices,
                                       const std::vector<OpRun>& runs) {
  strategies::require(!mistake_of_tensor(members, slices),
                      "members that cannot have the virtual slices");
  const auto stages = stage_of_ops(runs, ops.size());
  uint32_t count = 1;
  for (const auto& run : runs)
    count = std::max(count, run.stage + 1);
  std::vector<TensorShare> shares;
  for (uint32_t stage = 0; stage < count; ++stage) {
    for (uint32_t index = 0; index < members; ++index)
      shares.push_back(member_share(
        ops, slices_of_member(index, members, slices), slices, stages, stage));
    show_variables(std::span{shares}.last(members));
  }
  return shares;
}

} // namespace troupe
