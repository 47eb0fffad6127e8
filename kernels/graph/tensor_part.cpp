#include "kernels/graph/tensor_part.hpp"

#include "kernels/base/require.hpp"
#include "kernels/graph/virtual_slices.hpp"

#include <algorithm>

namespace troupe {

using kernels::require;

namespace {

bool covers(SliceNode outer, SliceNode inner) {
  return outer.lo <= inner.lo && inner.hi <= outer.hi;
}

class Taker {
public:
  Taker(const Graph& graph, SliceNode own)
    : graph_(graph), own_(own), producer_(graph.values.size(), nobody) {
    for (uint32_t i = 0; i < graph.ops.size(); ++i)
      producer_[graph.ops[i].output] = i;
  }

  TensorPart take() {
    part_.graph = graph_;
    part_.graph.ops.clear();
    for (uint32_t i = 0; i < graph_.ops.size(); ++i) {
      const auto& op = graph_.ops[i];
      if (!op.slices || covers(own_, *op.slices))
        keep(i);
      else if (*op.slices == SliceNode{0, graph_.virtual_slices})
        exchange(i);
    }
    // Those of the backward pass come in its order.
    std::reverse(backward_.begin(), backward_.end());
    part_.sums.insert(part_.sums.end(), backward_.begin(), backward_.end());
    std::vector<uint8_t> used(graph_.parameters.size(), 0);
    for (const auto& op : part_.graph.ops)
      for (auto parameter : op.parameters)
        used[parameter] = 1;
    for (uint32_t i = 0; i < used.size(); ++i)
      if (used[i])
        part_.parameters.push_back(i);
    return std::move(part_);
  }

private:
  static constexpr uint32_t nobody = ~uint32_t{0};

  void keep(uint32_t at) {
    auto op = graph_.ops[at];
    if (op.kind == OpKind::dropout && !op.stream)
      op.stream = at;
    // Own slices read the input at the root of its aliases: those between are
    // nobody's.
    if (op.slices == own_ && op.kind == OpKind::reshape)
      op.inputs[0] = root_above(op.inputs[0]);
    add(std::move(op), at);
  }

  void add(Op op, uint32_t place) {
    part_.graph.ops.push_back(std::move(op));
    part_.places.push_back(place);
  }

  uint32_t root_above(uint32_t value) const {
    while (producer_[value] != nobody) {
      const auto& op = graph_.ops[producer_[value]];
      if (!op.slices || *op.slices == SliceNode{0, graph_.virtual_slices})
        break;
      value = op.inputs[0];
    }
    return value;
  }

  /// The root of a tree is an alias: of the input whose gradients are summed,
  /// or of the own slices' partial sum, in whose place that of all will be.
  void exchange(uint32_t place) {
    const auto& root = graph_.ops[place];
    auto op = root;
    const auto at = static_cast<uint32_t>(part_.graph.ops.size());
    if (op.kind == OpKind::add) {
      const auto own = own_below(root);
      op.kind = OpKind::reshape;
      op.inputs = {own};
      op.attributes.shape = graph_.values[root.output].shape;
      part_.sums.push_back({true, at, own});
    } else {
      require(op.kind == OpKind::reshape, "the root of no tree over slices");
      backward_.push_back({false, at, op.output});
    }
    add(std::move(op), place);
  }

  /// The value that the own slices' operators add up to.
  uint32_t own_below(const Op& root) const {
    const auto* op = &root;
    while (*op->slices != own_) {
      require(op->slices->hi - op->slices->lo > 1,
              "a member's slices that are no node of the tree");
      const auto left = children(*op->slices).first;
      op = &graph_.ops[producer_[op->inputs[covers(left, own_) ? 0 : 1]]];
    }
    return op->output;
  }

  const Graph& graph_;
  SliceNode own_;
  std::vector<uint32_t> producer_; ///< of values
  TensorPart part_;
  std::vector<TensorSum> backward_;
};

} // namespace

TensorPart tensor_part(const Graph& graph, SliceNode own) {
  require(own.lo < own.hi && own.hi <= graph.virtual_slices,
          "slices that the graph has not");
  return Taker{graph, own}.take();
}

bool may_cut_before(const Graph& graph, uint32_t op) {
  if (op == 0 || op >= graph.ops.size())
    return true;
  const auto& last = graph.ops[op - 1];
  if (!last.slices)
    return true;
  const auto& next = graph.ops[op];
  const bool whole = last.kind == OpKind::add
                     && *last.slices == SliceNode{0, graph.virtual_slices};
  // The activation of the layer whose sum that is has its name.
  return whole
         && !(next.kind == OpKind::activation && !next.slices
              && next.inputs.front() == last.output);
}

GraphPart part_of(const TensorPart& member, OpRange ops) {
  const auto& own = member.graph.ops;
  const auto place_of = [&](uint32_t op) {
    const auto found = std::ranges::lower_bound(member.places, op);
    const auto place = static_cast<uint32_t>(found - member.places.begin());
    require(place == 0 || place == own.size() || !own[place - 1].slices
              || own[place - 1].slices
                   == SliceNode{0, member.graph.virtual_slices},
            "a cut within layers that a group of members shares");
    return place;
  };
  auto part = part_of(member.graph,
                      OpRange{place_of(ops.begin), place_of(ops.end)});
  for (const auto& sum : member.sums)
    if (part.ops.begin <= sum.op && sum.op < part.ops.end)
      part.sums.push_back(sum);
  return part;
}

} // namespace troupe
