#pragma once

#include "kernels/graph/graph.hpp"
#include "kernels/graph/stages.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// What one of a group of members computes that each have some of a graph's
/// virtual slices: a graph of its own with the operators of no slice and those
/// of its slices. Values and parameters are numbered as in the whole graph;
/// what others have, no operator uses.
struct TensorPart {
  Graph graph;
  std::vector<uint32_t> places;     ///< of its operators in the whole graph
  std::vector<TensorSum> sums;      ///< of a micro-batch, in their order
  std::vector<uint32_t> parameters; ///< that its operators use, ascending
};

/// The part of the member that has the slices of `own`, a node of the tree.
/// Errors: a range that is no node is a bug and asserts.
TensorPart tensor_part(const Graph& graph, SliceNode own);

/// Whether a graph may be cut before an operator where each stage is a group of
/// members: nothing that crosses is of a slice, and all members have all of it.
/// A layer that is cut stays with its activation.
bool may_cut_before(const Graph& graph, uint32_t op);

/// A member's share of operators [begin, end) of the whole graph, with its
/// sums. Errors: a cut within the slices of a member is a bug and asserts.
GraphPart part_of(const TensorPart& member, OpRange ops);

} // namespace troupe
