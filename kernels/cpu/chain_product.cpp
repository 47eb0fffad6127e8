#include "kernels/cpu/chain_product.hpp"

#include "kernels/base/require.hpp"
#include "kernels/cpu/chain_loops.hpp"
#include "kernels/cpu/reserve.hpp"
#include "kernels/cpu/sparse_loops.hpp"
#include "kernels/cpu/transposed_copy.hpp"

#include <algorithm>

namespace troupe::kernels {

namespace {

/// Of a band of b: the second cache holds two, and rows of a.
constexpr size_t max_elements = 128 << 10;

size_t parts(size_t whole, size_t part) {
  return (whole + part - 1) / part;
}

} // namespace

/// Some rows and columns of b, in panels of a tile's width one after the other.
struct ChainProduct::Band {
  size_t place = 0; ///< of the first row
  size_t depth = 0;
  size_t column = 0;
  size_t columns = 0;

  size_t lines() const { return depth * parts(columns, chain_loops().width); }
};

/// c [rows, columns] (+)= a [rows, depth] b
struct ChainProduct::Job {
  size_t rows, columns, depth;
  const float* a;
  const float* b; ///< [depth, columns], or in panels of all its rows
  bool in_panels;
  float* c;
  bool accumulate;
  StackedLeaves leaves = {};
  float* stack = nullptr;
  size_t deep = 0; ///< of a band
  size_t wide = 0;

  size_t bands() const { return parts(depth, deep) * parts(columns, wide); }
  Band band(size_t i) const {
    if (i == bands())
      return {};
    const auto beside = parts(columns, wide);
    const auto place = i / beside * deep;
    const auto column = i % beside * wide;
    return {place, std::min(deep, depth - place), column,
            std::min(wide, columns - column)};
  }
};

void ChainProduct::multiply(Side side_a, Side side_b, size_t m, size_t n,
                            size_t k, const float* a, const float* b, float* c,
                            bool accumulate) {
  if (side_b == Side::as_is) {
    if (side_a == Side::transposed) {
      reserve(a_, m * k);
      transposed_copy(a, m, k, m, a_.data(), k);
      a = a_.data();
    }
    run({m, n, k, a, b, false, c, accumulate});
    return;
  }
  // c^T = b a^T, as b lies: most often it is the largest.
  const auto width = chain_loops().width;
  reserve(b_, parts(m, width) * k * width);
  for (size_t at = 0; at < m; at += width) {
    auto* panel = b_.data() + at * k;
    const auto wide = std::min(width, m - at);
    if (wide < width)
      std::fill_n(panel, k * width, 0.0f);
    transposed_copy(a + at * k, k, wide, k, panel, width);
  }
  reserve(c_, m * n);
  if (accumulate)
    transposed_copy(c, n, m, n, c_.data(), m);
  run({n, m, k, b, b_.data(), true, c_.data(), accumulate});
  transposed_copy(c_.data(), m, n, m, c, n);
}

void ChainProduct::multiply_leaves(StackedLeaves leaves, size_t m, size_t n,
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
  const auto& loops = chain_loops();
  reserve(stack_, highest * loops.rows * loops.width);
  reserve(a_, m * k);
  transposed_copy(a, m, k, m, a_.data(), k);
  run({m, n, k, a_.data(), b, false, c, false, leaves, stack_.data()});
}

/// Each band is copied while the one before it is multiplied.
void ChainProduct::run(Job job) {
  const auto width = chain_loops().width;
  job.deep = parts(job.depth, parts(job.depth, max_depth));
  job.wide = std::max<size_t>(1, max_elements / job.deep / width) * width;
  if (!job.in_panels)
    for (auto& band : bands_)
      reserve(band,
              job.deep * std::min(job.wide, parts(job.columns, width) * width));
  auto band = job.band(0);
  if (!job.in_panels)
    for (size_t line = 0; line < band.lines();)
      line = copy_lines(job, band, line, band.depth);
  for (size_t i = 0; i < job.bands(); ++i) {
    const auto next = job.band(i + 1);
    std::swap(bands_[0], bands_[1]);
    multiply_band(job, band, next);
    band = next;
  }
}

/// Copies up to `count` lines of the next band; returns where to go on.
size_t ChainProduct::copy_lines(const Job& job, const Band& band, size_t line,
                                size_t count) {
  const auto width = chain_loops().width;
  const auto column = line / band.depth * width;
  const auto k = line % band.depth;
  count = std::min(count, band.depth - k);
  sparse_loops().copy(
    {job.b + (band.place + k) * job.columns + band.column + column, job.columns,
     bands_[0].data() + line * width, width, count,
     std::min(width, band.columns - column)});
  return line + count;
}

void ChainProduct::multiply_band(const Job& job, const Band& band,
                                 const Band& next) {
  const auto& loops = chain_loops();
  const auto tiles = parts(job.rows, loops.rows)
                     * parts(band.columns, loops.width);
  const auto lines = job.in_panels ? 0 : next.lines();
  const auto share = parts(lines, tiles);
  size_t line = 0;
  ChainTile tile = {};
  tile.a_stride = job.depth;
  tile.depth = band.depth;
  tile.c_stride = tile.ahead_stride = job.columns;
  tile.add = job.accumulate || band.place > 0;
  tile.leaves = job.leaves.data();
  tile.leaf_count = job.leaves.size();
  tile.stack = job.stack;
  for (size_t row = 0; row < job.rows; row += loops.rows) {
    tile.a = job.a + row * job.depth + band.place;
    tile.rows = std::min(loops.rows, job.rows - row);
    for (size_t at = 0; at < band.columns; at += loops.width) {
      const auto column = band.column + at;
      tile.b = job.in_panels
                 ? job.b + column * job.depth + band.place * loops.width
                 : bands_[1].data() + at * band.depth;
      tile.c = job.c + row * job.columns + column;
      tile.columns = std::min(loops.width, band.columns - at);
      if (line < lines) {
        const auto k = line % next.depth;
        tile.ahead = job.b + (next.place + k) * job.columns + next.column
                     + line / next.depth * loops.width;
        tile.ahead_lines = std::min(share, next.depth - k);
      } else {
        tile.ahead_lines = 0;
      }
      loops.tile(tile);
      if (line < lines)
        line = copy_lines(job, next, line, share);
    }
  }
  while (line < lines)
    line = copy_lines(job, next, line, next.depth);
}

} // namespace troupe::kernels

#define LEAF "kernels/cpu/chain_leaf.inc"
#define TABLE_TYPE ChainLoops
#define TABLE_NAME chain_loops
#define TABLE_ENTRIES tile_rows, width, tile
#include "kernels/cpu/per_isa.inc"
