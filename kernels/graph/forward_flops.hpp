#pragma once

#include "kernels/graph/graph.hpp"

#include <cstdint>

namespace troupe {

/// Multiply-adds times two of a sample's forward pass through an operator.
uint64_t forward_flops(const Graph& graph, const Op& op);

} // namespace troupe
