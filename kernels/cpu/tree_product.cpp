#include "kernels/cpu/tree_product.hpp"

#include "kernels/base/require.hpp"
#include "kernels/cpu/reserve.hpp"
#include "kernels/cpu/sparse_loops.hpp"
#include "kernels/cpu/transposed_copy.hpp"
#include "kernels/cpu/tree_loops.hpp"

#include <algorithm>

namespace troupe::kernels {

namespace {

/// Of a band of b: the second cache holds two, and rows of a.
constexpr size_t max_elements = 128 << 10;

size_t parts(size_t whole, size_t part) {
  return (whole + part - 1) / part;
}

} // namespace

/// Some columns of b, in panels of a tile's width one after the other.
struct TreeProduct::Band {
  size_t column = 0;
  size_t columns = 0;
};

/// c [rows, columns] = a [rows, depth] b [depth, columns]
struct TreeProduct::Job {
  size_t rows, columns, depth;
  const float* a;
  const float* b;
  float* c;
  StackedLeaves leaves;
  float* stack;
  size_t wide; ///< columns of a band

  Band band(size_t column) const {
    return {column, column < columns ? std::min(wide, columns - column) : 0};
  }
  size_t lines(const Band& band) const {
    return depth * parts(band.columns, tree_loops().width);
  }
};

/// Each band is copied while the one before it is multiplied.
void TreeProduct::multiply(StackedLeaves leaves, size_t m, size_t n,
                           const float* a, const float* b, float* c) {
  size_t k = 0;
  size_t height = 0;
  size_t highest = 0;
  for (const auto& leaf : leaves) {
    k += leaf.rows;
    highest = std::max(highest, ++height);
    height -= leaf.merges;
  }
  require(k <= max_depth && height == 1, "leaves that are no whole tree");
  const auto& loops = tree_loops();
  const auto width = loops.width;
  reserve(stack_, highest * loops.rows * width);
  reserve(a_, m * k);
  transposed_copy(a, m, k, m, a_.data(), k);
  const Job job = {m,
                   n,
                   k,
                   a_.data(),
                   b,
                   c,
                   leaves,
                   stack_.data(),
                   std::max<size_t>(1, max_elements / k / width) * width};
  for (auto& band : bands_)
    reserve(band, k * std::min(job.wide, parts(n, width) * width));
  auto band = job.band(0);
  for (size_t line = 0; line < job.lines(band);)
    line = copy_lines(job, band, line, k);
  while (band.columns > 0) {
    const auto next = job.band(band.column + job.wide);
    std::swap(bands_[0], bands_[1]);
    multiply_band(job, band, next);
    band = next;
  }
}

/// Copies up to `count` lines of the next band; returns where to go on.
size_t TreeProduct::copy_lines(const Job& job, const Band& band, size_t line,
                               size_t count) {
  const auto width = tree_loops().width;
  const auto column = line / job.depth * width;
  const auto k = line % job.depth;
  count = std::min(count, job.depth - k);
  sparse_loops().copy({job.b + k * job.columns + band.column + column,
                       job.columns, bands_[0].data() + line * width, width,
                       count, std::min(width, band.columns - column)});
  return line + count;
}

void TreeProduct::multiply_band(const Job& job, const Band& band,
                                const Band& next) {
  const auto& loops = tree_loops();
  const auto tiles = parts(job.rows, loops.rows)
                     * parts(band.columns, loops.width);
  const auto lines = job.lines(next);
  const auto share = parts(lines, tiles);
  size_t line = 0;
  TreeTile tile = {};
  tile.a_stride = job.depth;
  tile.c_stride = tile.ahead_stride = job.columns;
  tile.leaves = job.leaves.data();
  tile.leaf_count = job.leaves.size();
  tile.stack = job.stack;
  for (size_t row = 0; row < job.rows; row += loops.rows) {
    tile.a = job.a + row * job.depth;
    tile.rows = std::min(loops.rows, job.rows - row);
    for (size_t at = 0; at < band.columns; at += loops.width) {
      tile.b = bands_[1].data() + at * job.depth;
      tile.c = job.c + row * job.columns + band.column + at;
      tile.columns = std::min(loops.width, band.columns - at);
      if (line < lines) {
        const auto k = line % job.depth;
        tile.ahead = job.b + k * job.columns + next.column
                     + line / job.depth * loops.width;
        tile.ahead_lines = std::min(share, job.depth - k);
      } else {
        tile.ahead_lines = 0;
      }
      loops.tile(tile);
      if (line < lines)
        line = copy_lines(job, next, line, share);
    }
  }
  while (line < lines)
    line = copy_lines(job, next, line, job.depth);
}

} // namespace troupe::kernels

#define LEAF "kernels/cpu/tree_leaf.inc"
#define TABLE_TYPE TreeLoops
#define TABLE_NAME tree_loops
#define TABLE_ENTRIES tile_rows, width, tile
#include "kernels/cpu/per_isa.inc"
