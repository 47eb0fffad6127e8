#pragma once

#include "kernels/graph/graph.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// A sum over the members of a group that each have some of a graph's virtual
/// slices. Every member has a partial sum of a value, or of its gradient, in
/// the place where the sum of all shall be.
struct TensorSum {
  bool forward = true;
  /// Forward: the sum comes before this operator, of its input. Backward:
  /// before its backward pass, of its output's gradient.
  uint32_t op = 0;
  uint32_t value = 0; ///< whose place it is

  bool operator==(const TensorSum&) const = default;
};

/// What a member of such a group computes: a graph of its own with the
/// operators of no slice and those of its slices. Values and parameters are
/// numbered as in the whole graph; what others have, no operator uses.
struct TensorPart {
  Graph graph;
  std::vector<TensorSum> sums;      ///< of a micro-batch, in their order
  std::vector<uint32_t> parameters; ///< that its operators use, ascending
};

/// The part of the member that has the slices of `own`, a node of the tree.
/// Errors: a range that is no node is a bug and asserts.
TensorPart tensor_part(const Graph& graph, SliceNode own);

} // namespace troupe
