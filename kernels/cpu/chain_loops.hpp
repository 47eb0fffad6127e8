#pragma once

#include "kernels/cpu/isa.hpp"
#include "kernels/graph/stacked_leaves.hpp"

#include <cstddef>

namespace troupe::kernels {

/// c [rows, columns] (+)= a [rows, depth] b [depth, width]. Each element's sum
/// is one chain of fused multiplications and additions along the depth; with
/// leaves one along the rows of each, and these summed along the tree.
struct ChainTile {
  const float* a;
  size_t a_stride;
  const float* b; ///< [depth, ChainLoops::width]
  size_t depth;
  float* c;
  size_t c_stride;
  size_t rows;               ///< 1 to ChainLoops::rows
  size_t columns;            ///< 1 to ChainLoops::width
  bool add;                  ///< sums begin with c; not with leaves
  const StackedLeaf* leaves; ///< of the depth; null: one
  size_t leaf_count;
  float* stack; ///< a tile, rows `width` apart, for each level of the tree
  const float* ahead; ///< lines that are wanted soon, width long
  size_t ahead_stride;
  size_t ahead_lines;
};

/// The kernel compiled for one instruction set; `tile` writes one tile of c.
struct ChainLoops {
  size_t rows;  ///< of a tile
  size_t width; ///< columns of a tile
  void (*tile)(const ChainTile& tile);
};

const ChainLoops& chain_loops(Isa isa);
const ChainLoops& chain_loops();

} // namespace troupe::kernels
