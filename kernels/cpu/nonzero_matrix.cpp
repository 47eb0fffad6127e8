#include "kernels/cpu/nonzero_matrix.hpp"

#include "kernels/cpu/sparse_loops.hpp"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace troupe::kernels {

namespace {

constexpr size_t least_columns = 64; ///< of a product
/// Rows of b in a block: 24 KiB with a block's columns on AVX-512.
constexpr size_t block_rows = 96;
constexpr size_t spare = 16; ///< that SparseLoops::compress may overwrite

} // namespace

bool NonzeroMatrix::take(const float* a, size_t rows, size_t columns,
                         size_t n) {
  const auto count = rows * columns;
  if (n < least_columns || count > std::numeric_limits<uint32_t>::max())
    return false;
  const auto found = sparse_loops().nonzeros(a, count);
  if (found > count / 5 * 2)
    return false;
  rows_ = rows;
  columns_ = columns;
  as_is_.values.resize(found + spare);
  as_is_.places.resize(found + spare);
  as_is_.starts.resize(rows + 1);
  size_t at = 0;
  for (size_t r = 0; r < rows; ++r) {
    as_is_.starts[r] = static_cast<uint32_t>(at);
    at += sparse_loops().compress(a + r * columns, columns,
                                  as_is_.values.data() + at,
                                  as_is_.places.data() + at);
  }
  as_is_.starts[rows] = static_cast<uint32_t>(at);
  return true;
}

void NonzeroMatrix::multiply(const float* b, size_t n, float* c) {
  run(as_is_, rows_, columns_, b, n, c, false);
}

void NonzeroMatrix::multiply_transposed(const float* b, size_t n, float* c,
                                        bool accumulate) {
  turn();
  run(turned_, columns_, rows_, b, n, c, accumulate);
}

/// Sorts the elements by column, those of a column in the order of rows.
void NonzeroMatrix::turn() {
  const auto count = as_is_.starts[rows_];
  auto& starts = turned_.starts;
  starts.assign(columns_ + 2, 0);
  for (size_t i = 0; i < count; ++i)
    ++starts[as_is_.places[i] + 2];
  for (size_t c = 2; c < starts.size(); ++c)
    starts[c] += starts[c - 1];
  turned_.values.resize(count);
  turned_.places.resize(count);
  for (size_t r = 0; r < rows_; ++r)
    for (size_t i = as_is_.starts[r]; i < as_is_.starts[r + 1]; ++i) {
      const auto to = starts[as_is_.places[i] + 1]++;
      turned_.values[to] = as_is_.values[i];
      turned_.places[to] = static_cast<uint32_t>(r);
    }
}

/// Block by block of b, copied to lie together: rows of it 2 KiB apart would
/// fall into few sets of the cache. Where b's rows are used but once or twice
/// it stays where it is.
void NonzeroMatrix::run(const Elements& a, size_t rows, size_t columns,
                        const float* b, size_t n, float* c, bool accumulate) {
  const auto& loops = sparse_loops();
  const bool packs = a.starts[rows] > 2 * columns;
  const auto height = packs ? std::min(block_rows, columns) : columns;
  const auto blocks = (columns + height - 1) / height;
  cuts_.resize((blocks + 1) * rows);
  for (size_t r = 0; r < rows; ++r) {
    auto at = a.starts[r];
    cuts_[r] = at;
    for (size_t p = 1; p <= blocks; ++p) {
      while (at < a.starts[r + 1] && a.places[at] < p * height)
        ++at;
      cuts_[p * rows + r] = at;
    }
  }
  if (packs)
    packed_.resize(height * loops.width);
  SparseBlock block = {};
  block.values = a.values.data();
  block.places = a.places.data();
  block.rows = rows;
  block.c_stride = n;
  for (size_t j = 0; j < n; j += loops.width) {
    block.c = c + j;
    block.columns = std::min(loops.width, n - j);
    for (size_t p = 0; p < blocks; ++p) {
      block.first = p * height;
      block.begin = cuts_.data() + p * rows;
      block.end = cuts_.data() + (p + 1) * rows;
      block.add = accumulate || p > 0;
      block.b = b + block.first * n + j;
      block.b_stride = n;
      if (packs) {
        for (size_t r = 0; r < std::min(height, columns - block.first); ++r)
          std::memcpy(packed_.data() + r * loops.width, block.b + r * n,
                      block.columns * sizeof(float));
        block.b = packed_.data();
        block.b_stride = loops.width;
      }
      loops.multiply(block);
    }
  }
}

} // namespace troupe::kernels

#define LEAF "kernels/cpu/sparse_leaf.inc"
#define TABLE_TYPE SparseLoops
#define TABLE_NAME sparse_loops
#define TABLE_ENTRIES width, nonzeros, compress, multiply
#include "kernels/cpu/per_isa.inc"
