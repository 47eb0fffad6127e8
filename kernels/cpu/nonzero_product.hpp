#pragma once

#include "kernels/base/buffer.hpp"
#include "kernels/cpu/matrix.hpp"
#include "kernels/cpu/sparse_loops.hpp"
#include "kernels/graph/stacked_leaves.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::kernels {

/// Nonzero elements of a matrix, row by row.
struct NonzeroRows {
  std::vector<float> values;
  std::vector<uint32_t> places; ///< columns, ascending in a row
  std::vector<uint32_t> starts; ///< of each row, and the end

  size_t rows() const { return starts.size() - 1; }
};

/// Products of nonzero elements with a matrix of which a block at a time is
/// copied to the first cache. Keeps its memory from product to product.
class NonzeroProduct {
public:
  /// c [rows of a, n] (+)= a b [columns, n]; b lies as [n, columns] if
  /// transposed.
  void multiply(const NonzeroRows& a, size_t columns, Side side_b,
                const float* b, size_t n, float* c, bool accumulate);

  /// c [rows of a, n] = the sum along the tree of what a b is for each leaf's
  /// columns of a, which are rows of b.
  void multiply_leaves(StackedLeaves leaves, const NonzeroRows& a,
                       const float* b, size_t n, float* c);

private:
  /// Rows of b; with the last block of a leaf its sums are whole.
  struct Block {
    size_t first = 0;
    size_t height = 0;
    const StackedLeaf* ends = nullptr;
    size_t group = 0; ///< the first
  };

  void cut(size_t columns, const StackedLeaf* leaf);
  void arrange(const NonzeroRows& a);
  void arrange_block(const NonzeroRows& a, const Block& block);
  void add_group(const NonzeroRows& a, const Block& block, const uint32_t* rows,
                 size_t count);
  void copy_block(const Block& block, Side side_b, const float* b, size_t n,
                  size_t column);
  void multiply_block(size_t block, float* sums);

  size_t columns_ = 0;
  size_t height_ = 0;         ///< rows of b in the highest block
  std::vector<Block> blocks_; ///< and an end
  // Of the elements of each row in the block at hand: [rows]
  std::vector<uint32_t> begin_;
  std::vector<uint32_t> end_;
  std::vector<uint32_t> order_; ///< rows, those with most elements first
  std::vector<uint32_t> counts_;
  std::vector<SparseElement> elements_;
  size_t used_ = 0; ///< of elements_
  std::vector<SparseGroup> groups_;
  Buffer block_;              ///< [height + 1, width], the last row zeros
  Buffer sums_;               ///< [rows + 1, width], the last row nobody's
  std::vector<Buffer> spare_; ///< the same, of leaves on the left
};

} // namespace troupe::kernels
