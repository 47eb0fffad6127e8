#pragma once

#include "kernels/graph/graph.hpp"

#include <cstdint>
#include <string>

namespace troupe {

/// Prints a graph as a table: an operator a line with its inputs, the shape of
/// its output, its parameters and FLOPs (forward and backward, a sample), then
/// totals and the memory of a step of `rows` rows on the CPU, planned and with
/// every buffer by itself.
/// Errors: InputError for an operator that the CPU cannot compute.
std::string to_table(const Graph& graph, uint32_t rows);

/// The memory of such a step as planned, on the CPU.
/// Errors: as to_table().
uint64_t step_bytes(const Graph& graph, uint32_t rows);

/// Prints a graph in Graphviz's language. `title` names it.
std::string to_dot(const Graph& graph, const std::string& title);

} // namespace troupe
