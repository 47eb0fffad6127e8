#include "kernels/cpu/nonzero_product.hpp"

#include "kernels/cpu/reserve.hpp"
#include "kernels/cpu/transposed_copy.hpp"

#include <algorithm>

namespace troupe::kernels {

namespace {

/// Of b's block: what the first cache holds beside the sums of a group.
constexpr size_t block_bytes = 24 << 10;

} // namespace

/// Columns of c by columns: their sums lie together while block after block of
/// b meets them. In place, 2^n columns apart, they would fall into few sets of
/// the cache.
void NonzeroProduct::multiply(const NonzeroRows& a, size_t columns, Side side_b,
                              const float* b, size_t n, float* c,
                              bool accumulate) {
  const auto& loops = sparse_loops();
  const auto width = loops.width;
  const auto rows = a.rows();
  arrange(a, columns);
  reserve(block_, (height_ + 1) * width);
  reserve(sums_, (rows + 1) * width);
  std::fill_n(block_.data() + height_ * width, width, 0.0f);
  for (size_t at = 0; at < n; at += width) {
    const auto wide = std::min(width, n - at);
    if (accumulate)
      loops.copy({c + at, n, sums_.data(), width, rows, wide});
    else
      std::fill_n(sums_.data(), rows * width, 0.0f);
    for (size_t p = 0; p + 1 < firsts_.size(); ++p) {
      copy_block(p, side_b, b, n, at);
      loops.multiply_groups({elements_.data(), groups_.data() + firsts_[p],
                             firsts_[p + 1] - firsts_[p], block_.data(),
                             sums_.data()});
    }
    loops.copy_sums({sums_.data(), width, c + at, n, rows, wide});
  }
}

void NonzeroProduct::copy_block(size_t block, Side side_b, const float* b,
                                size_t n, size_t column) {
  const auto& loops = sparse_loops();
  const auto first = block * height_;
  const auto high = std::min(height_, columns_ - first);
  const auto wide = std::min(loops.width, n - column);
  if (side_b == Side::as_is)
    loops.copy(
      {b + first * n + column, n, block_.data(), loops.width, high, wide});
  else
    transposed_copy(b + column * columns_ + first, columns_, wide, high,
                    block_.data(), loops.width);
}

void NonzeroProduct::arrange(const NonzeroRows& a, size_t columns) {
  const auto& loops = sparse_loops();
  const auto most = block_bytes / sizeof(float) / loops.width;
  const auto blocks = (columns + most - 1) / most;
  columns_ = columns;
  height_ = (columns + blocks - 1) / blocks;
  begin_.assign(a.starts.begin(), a.starts.end() - 1);
  end_.resize(a.rows());
  order_.resize(a.rows());
  groups_.clear();
  firsts_.clear();
  used_ = 0;
  for (size_t p = 0; p < blocks; ++p) {
    firsts_.push_back(groups_.size());
    arrange_block(a, p);
    begin_.swap(end_);
  }
  firsts_.push_back(groups_.size());
}

/// Rows of about as many elements go together, so that little is filled up and
/// a group's end is foreseen.
void NonzeroProduct::arrange_block(const NonzeroRows& a, size_t block) {
  const auto rows = a.rows();
  const auto limit = (block + 1) * height_;
  counts_.assign(height_ + 2, 0);
  for (size_t r = 0; r < rows; ++r) {
    auto at = begin_[r];
    while (at < a.starts[r + 1] && a.places[at] < limit)
      ++at;
    end_[r] = at;
    ++counts_[height_ - (at - begin_[r]) + 1];
  }
  for (size_t i = 1; i < counts_.size(); ++i)
    counts_[i] += counts_[i - 1];
  for (size_t r = 0; r < rows; ++r)
    order_[counts_[height_ - (end_[r] - begin_[r])]++] =
      static_cast<uint32_t>(r);
  const auto size = sparse_loops().group;
  for (size_t r = 0; r < rows; r += size) {
    if (begin_[order_[r]] == end_[order_[r]])
      break;
    add_group(a, block, order_.data() + r, std::min(size, rows - r));
  }
}

void NonzeroProduct::add_group(const NonzeroRows& a, size_t block,
                               const uint32_t* rows, size_t count) {
  const auto size = sparse_loops().group;
  const auto longest = end_[rows[0]] - begin_[rows[0]];
  const auto first = static_cast<uint32_t>(block * height_);
  const SparseElement none = {0.0f, static_cast<uint32_t>(height_)};
  if (elements_.size() < used_ + longest * size)
    elements_.resize(2 * (used_ + longest * size));
  auto* const to = elements_.data() + used_;
  SparseGroup group = {used_, longest, {}};
  for (size_t k = 0; k < size; ++k) {
    const auto r = k < count ? rows[k] : static_cast<uint32_t>(a.rows());
    const auto found = k < count ? end_[r] - begin_[r] : 0;
    const auto from = k < count ? begin_[r] : 0;
    group.rows[k] = r;
    for (size_t i = 0; i < found; ++i)
      to[i * size + k] = {a.values[from + i], a.places[from + i] - first};
    for (size_t i = found; i < longest; ++i)
      to[i * size + k] = none;
  }
  groups_.push_back(group);
  used_ += longest * size;
}

} // namespace troupe::kernels
