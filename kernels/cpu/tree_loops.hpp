#pragma once

#include "kernels/cpu/isa.hpp"
#include "kernels/graph/stacked_leaves.hpp"

#include <cstddef>

namespace troupe::kernels {

/// c [rows, columns] = a [rows, depth] b [depth, width]. Each element's sum is
/// one chain of fused multiplications and additions along the rows of each
/// leaf, and these are summed along the tree.
struct TreeTile {
  const float* a;
  size_t a_stride;
  const float* b; ///< [depth, TreeLoops::width]
  float* c;
  size_t c_stride;
  size_t rows;               ///< 1 to TreeLoops::rows
  size_t columns;            ///< 1 to TreeLoops::width
  const StackedLeaf* leaves; ///< of the depth
  size_t leaf_count;
  float* stack; ///< a tile, rows `width` apart, for each level of the tree
  const float* ahead; ///< lines that are wanted soon, width long
  size_t ahead_stride;
  size_t ahead_lines;
};

/// The kernel compiled for one instruction set; `tile` writes one tile of c.
struct TreeLoops {
  size_t rows;  ///< of a tile
  size_t width; ///< columns of a tile
  void (*tile)(const TreeTile& tile);
};

const TreeLoops& tree_loops(Isa isa);
const TreeLoops& tree_loops();

} // namespace troupe::kernels
