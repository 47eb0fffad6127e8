#pragma once

#include "kernels/engine/operator.hpp"
#include "kernels/graph/stages.hpp"

#include <cstdint>
#include <vector>

namespace troupe::kernels {

/// How the backward pass of a part comes in halves: that for inputs, for which
/// the stage before waits, and that for weights, for which nobody does.
/// Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2024, section 2.
struct BackwardHalves {
  /// Per operator of the graph: it has halves. The others do all in the half
  /// for inputs; so does who shares a parameter with one of them, or with the
  /// stage before, since what is added to a gradient keeps its order.
  std::vector<uint8_t> splits;
  /// Parameters, ascending, that have a gradient after the half for inputs,
  /// whole or, where it comes from the stage after, in part.
  std::vector<uint32_t> early;
};

/// Shape: needs [operators of the graph], of the part's own.
BackwardHalves halve_backward(const Graph& graph, const GraphPart& part,
                              const std::vector<Needs>& needs);

} // namespace troupe::kernels
