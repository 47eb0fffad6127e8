#pragma once

#include "kernels/graph/graph.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// Operators [begin, end) of a graph.
struct OpRange {
  uint32_t begin = 0;
  uint32_t end = 0;

  bool operator==(const OpRange&) const = default;
};

/// What crosses a cut before an operator: forward the values, backward the
/// gradients of those that training asks for. What passes a stage by, of a skip
/// connection over it, crosses both of its cuts. Indices ascend.
struct Crossing {
  std::vector<uint32_t> values;
  std::vector<uint32_t> gradients; ///< of values
  /// Used on both sides (an embedding that is the head too). The side before
  /// the cut keeps it and sends it once for each version; its gradient so far
  /// comes back with each micro-batch, and is added to on this side, as in the
  /// whole graph, which goes through its operators backward.
  std::vector<uint32_t> parameters;

  bool operator==(const Crossing&) const = default;
};

/// Nothing crosses at the ends.
Crossing crossing_before(const Graph& graph, uint32_t op);

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

/// A stage's operators, and what it exchanges with the stages beside it.
struct GraphPart {
  OpRange ops;
  Crossing in;
  Crossing out;
  std::vector<uint32_t> parameters; ///< of its operators, ascending
  std::vector<uint32_t> kept;       ///< of those: no stage before has them
  /// Of a tensor member's graph: in the order of a micro-batch's two passes.
  std::vector<TensorSum> sums;
};

/// Errors: an empty range, or one outside the graph, is a bug and asserts.
GraphPart part_of(const Graph& graph, OpRange ops);

/// Whether an operator of a part reads a value, if there is one.
bool reads(const Graph& graph, const GraphPart& part,
           std::optional<uint32_t> value);

/// Whether it needs a micro-batch's samples: features, ids or, for the loss,
/// labels.
bool reads_samples(const Graph& graph, const GraphPart& part);

/// Elements that cross: of a micro-batch forward, without parameters, and
/// backward, with theirs.
uint64_t forward_elements(const Graph& graph, const Crossing& crossing,
                          uint64_t rows);
uint64_t backward_elements(const Graph& graph, const Crossing& crossing,
                           uint64_t rows);
/// Elements of the parameters that cross.
uint64_t parameter_elements(const Graph& graph, const Crossing& crossing);

/// Doubles of each sum over all virtual ranks that a pass of a part stops for,
/// in order: those of batch norms with statistics over all of them.
std::vector<uint64_t> rank_sums(const Graph& graph, const GraphPart& part,
                                bool forward);

/// Whether training asks for the gradient of each value: it depends on a
/// parameter. Shape: [values].
std::vector<uint8_t> wanted_gradients(const Graph& graph);

} // namespace troupe
