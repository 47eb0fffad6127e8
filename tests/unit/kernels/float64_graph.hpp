#pragma once

#include "kernels/graph/graph.hpp"

#include <vector>

namespace troupe::test {

/// What a graph is run on, in float64, row-major with the rows first.
struct GraphInputs {
  uint32_t rows = 1;
  std::vector<double> features;
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
  std::vector<double> targets;
  uint64_t key = 0;
  bool training = true;
};

/// Interprets a graph of all operators but convolutions, pools and batch norms
/// in float64, one element after the other. Returns the loss summed
/// over the rows. `parameters` is flat by Layout(graph).
double float64_loss(const Graph& graph, const std::vector<double>& parameters,
                    const GraphInputs& inputs);

} // namespace troupe::test
