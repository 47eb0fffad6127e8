#pragma once

#include "kernels/graph/graph.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// The parameters of a graph that can be sparse tables: those that a step
/// touches by rows, where all that reads ids reads them for such a table. Else
/// none: ids that are given other numbers would mislead what is left.
std::vector<uint32_t> sparse_parameters(const Graph& graph);

/// The graph for samples whose ids are numbered anew, 0 to below `rows`: the
/// tables are that small.
Graph compact_graph(Graph graph, const std::vector<uint32_t>& tables,
                    uint64_t rows);

} // namespace troupe
