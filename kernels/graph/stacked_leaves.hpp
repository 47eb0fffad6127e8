#pragma once

#include "kernels/graph/graph.hpp"

#include <cstdint>
#include <span>

namespace troupe {

/// A leaf of a pass that computes several: its rows follow those of the leaf
/// before. Listed left to right, so that with `merges` they say how the tree
/// sums them.
struct StackedLeaf {
  uint32_t rows = 0;
  uint64_t key = 0;    ///< Batch::key of the leaf alone
  uint32_t merges = 0; ///< so often the last two sums then become one
};

using StackedLeaves = std::span<const StackedLeaf>;

/// Whether a pass can compute several leaves of the graph, with the bits that
/// each has alone: every operator treats rows one by one, and no parameter is
/// used twice.
bool stacks(const Graph& graph);

} // namespace troupe
