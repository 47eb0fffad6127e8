#include "strategies/tensor_plan.hpp"

#include "strategies/require.hpp"

#include <bit>
#include <set>

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

std::vector<TensorShare> tensor_shares(const std::vector<TensorOp>& ops,
                                       uint32_t members, uint32_t slices) {
  strategies::require(!mistake_of_tensor(members, slices),
                      "members that cannot have the virtual slices");
  std::vector<TensorShare> shares;
  std::set<uint32_t> shown;
  for (uint32_t index = 0; index < members; ++index) {
    TensorShare share;
    share.slices = slices_of_member(index, members, slices);
    std::set<uint32_t> variables;
    const auto duties = tensor_duties(ops, share.slices, slices);
    for (size_t i = 0; i < ops.size(); ++i) {
      const auto& op = ops[i];
      if (duties[i] == TensorDuty::compute) {
        variables.insert(op.variables.begin(), op.variables.end());
        share.flops += op.flops;
      } else if (duties[i] == TensorDuty::exchange) {
        const bool forward = op.kind == TensorOp::Kind::sums;
        ++(forward ? share.forward_sums : share.backward_sums);
        share.bytes += op.bytes;
      }
    }
    share.variables.assign(variables.begin(), variables.end());
    for (auto variable : share.variables)
      if (shown.insert(variable).second)
        share.shows.push_back(variable);
    shares.push_back(std::move(share));
  }
  return shares;
}

} // namespace troupe
