#include "kernels/cpu/nonzero_matrix.hpp"

#include "kernels/cpu/sparse_loops.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace troupe::kernels {

namespace {

constexpr size_t min_columns = 64; ///< of a product
constexpr size_t spare = 16;       ///< that SparseLoops::compress may overwrite

} // namespace

bool NonzeroMatrix::take(const float* a, size_t rows, size_t columns, size_t n,
                         double most) {
  const auto count = rows * columns;
  if (n < min_columns || count > std::numeric_limits<uint32_t>::max())
    return false;
  const auto found = sparse_loops().nonzeros(a, count);
  if (static_cast<double>(found) > most * static_cast<double>(count))
    return false;
  join(rows, columns, found);
  return true;
}

void NonzeroMatrix::join(size_t rows, size_t columns, size_t found) {
  rows_ = rows;
  columns_ = columns;
  found_ = found;
  compressed_ = false;
}

void NonzeroMatrix::multiply(const float* a, Side side_b, const float* b,
                             size_t n, float* c, bool accumulate) {
  if (leaves_out(side_b == Side::as_is ? &BreakEven::plain
                                       : &BreakEven::transposed_b)) {
    compress(a);
    run(as_is_, columns_, side_b, b, n, c, accumulate);
  } else {
    multiply_in_one_chain(Side::as_is, side_b, rows_, n, columns_, a, b, c,
                          accumulate);
  }
}

void NonzeroMatrix::multiply_transposed(const float* a, const float* b,
                                        size_t n, float* c, bool accumulate) {
  if (leaves_out(&BreakEven::transposed_a)) {
    compress(a);
    turn();
    run(turned_, rows_, Side::as_is, b, n, c, accumulate);
  } else {
    multiply_in_one_chain(Side::transposed, Side::as_is, columns_, n, rows_, a,
                          b, c, accumulate);
  }
}

void NonzeroMatrix::multiply_leaves(StackedLeaves leaves, const float* a,
                                    const float* b, size_t n, float* c) {
  if (leaves_out(&BreakEven::leaves)) {
    compress(a);
    turn();
    product_.multiply_leaves(leaves, turned_, b, n, c);
  } else {
    tree_.multiply(leaves, columns_, n, a, b, c);
  }
}

bool NonzeroMatrix::leaves_out(double BreakEven::*product) const {
  constexpr double anywhere = 0.25; // on any machine, not measured for it
  const auto up_to = [&](double most) {
    return static_cast<double>(found_)
           <= most * static_cast<double>(rows_ * columns_);
  };
  if (rates_ != nullptr)
    return up_to(rates_->*product);
  return up_to(anywhere) || up_to(BreakEven::measured().*product);
}

void NonzeroMatrix::compress(const float* a) {
  if (compressed_)
    return;
  compressed_ = true;
  as_is_.values.resize(found_ + spare);
  as_is_.places.resize(found_ + spare);
  as_is_.starts.resize(rows_ + 1);
  size_t at = 0;
  for (size_t r = 0; r < rows_; ++r) {
    as_is_.starts[r] = static_cast<uint32_t>(at);
    at += sparse_loops().compress(a + r * columns_, columns_,
                                  as_is_.values.data() + at,
                                  as_is_.places.data() + at);
  }
  as_is_.starts[rows_] = static_cast<uint32_t>(at);
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
  starts.pop_back();
}

void NonzeroMatrix::run(const NonzeroRows& a, size_t columns, Side side_b,
                        const float* b, size_t n, float* c, bool accumulate) {
  // Where b's rows are used but once or twice they stay where they are.
  if (side_b == Side::transposed || a.starts.back() > 2 * columns) {
    product_.multiply(a, columns, side_b, b, n, c, accumulate);
    return;
  }
  const auto& loops = sparse_loops();
  for (size_t j = 0; j < n; j += loops.width)
    loops.multiply({a.values.data(), a.places.data(), a.starts.data(), a.rows(),
                    b + j, n, c + j, n, std::min(loops.width, n - j),
                    accumulate});
}

} // namespace troupe::kernels

#define LEAF "kernels/cpu/sparse_leaf.inc"
#define TABLE_TYPE SparseLoops
#define TABLE_NAME sparse_loops
#define TABLE_ENTRIES \
  width, group, nonzeros, compress, multiply, multiply_groups, copy, copy_sums
#include "kernels/cpu/per_isa.inc"
