#pragma once

#include "kernels/engine/replica.hpp"
#include "kernels/graph/graph.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// What an operator takes of a micro-batch, in nanoseconds.
struct OperatorTime {
  uint64_t forward = 0;
  uint64_t backward = 0; ///< at once
  uint64_t inputs = 0;   ///< the halves of the same
  uint64_t weights = 0;
};

/// Measures each operator of a graph alone, on one thread of a CPU, with values
/// that the operators before it give of drawn samples; operators that are alike
/// once. The fastest of several tries, which is not what others on the machine
/// made of it. Layers that wait say themselves how long.
/// Errors: InputError for an operator that the CPU cannot compute.
std::vector<OperatorTime> measure_operators(const Graph& graph, uint32_t rows,
                                            Precision precision);

} // namespace troupe
