#include "kernels/cpu/nonzero_product.hpp"

#include "kernels/cpu/leaf_stack.hpp"
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
  blocks_.clear();
  columns_ = 0;
  cut(columns, nullptr);
  arrange(a);
  reserve(sums_, (rows + 1) * width);
  for (size_t at = 0; at < n; at += width) {
    const auto wide = std::min(width, n - at);
    if (accumulate)
      loops.copy({c + at, n, sums_.data(), width, rows, wide});
    else
      std::fill_n(sums_.data(), rows * width, 0.0f);
    for (size_t p = 0; p + 1 < blocks_.size(); ++p) {
      copy_block(blocks_[p], side_b, b, n, at);
      multiply_block(p, sums_.data());
    }
    loops.copy_sums({sums_.data(), width, c + at, n, rows, wide});
  }
}

void NonzeroProduct::multiply_leaves(StackedLeaves leaves, const NonzeroRows& a,
                                     const float* b, size_t n, float* c) {
  const auto& loops = sparse_loops();
  const auto width = loops.width;
  const auto rows = a.rows();
  blocks_.clear();
  columns_ = 0;
  for (const auto& leaf : leaves)
    cut(leaf.rows, &leaf);
  arrange(a);
  reserve(sums_, (rows + 1) * width);
  for (size_t at = 0; at < n; at += width) {
    const auto wide = std::min(width, n - at);
    LeafStack stack{sums_.data(), (rows + 1) * width, spare_};
    float* sums = nullptr;
    for (size_t p = 0; p + 1 < blocks_.size(); ++p) {
      if (sums == nullptr) {
        sums = stack.push();
        std::fill_n(sums, (rows + 1) * width, 0.0f);
      }
      copy_block(blocks_[p], Side::as_is, b, n, at);
      multiply_block(p, sums);
      if (blocks_[p].ends == nullptr)
        continue;
      loops.copy_sums({sums, width, sums, width, rows, width});
      stack.merge(blocks_[p].ends->merges);
      sums = nullptr;
    }
    loops.copy({sums_.data(), width, c + at, n, rows, wide});
  }
}

void NonzeroProduct::multiply_block(size_t block, float* sums) {
  const auto first = blocks_[block].group;
  sparse_loops().multiply_groups({elements_.data(), groups_.data() + first,
                                  blocks_[block + 1].group - first,
                                  block_.data(), sums});
}

void NonzeroProduct::copy_block(const Block& block, Side side_b, const float* b,
                                size_t n, size_t column) {
  const auto& loops = sparse_loops();
  const auto wide = std::min(loops.width, n - column);
  if (side_b == Side::as_is)
    loops.copy({b + block.first * n + column, n, block_.data(), loops.width,
                block.height, wide});
  else
    transposed_copy(b + column * columns_ + block.first, columns_, wide,
                    block.height, block_.data(), loops.width);
}

/// Adds blocks of about equal height for so many more columns of a.
void NonzeroProduct::cut(size_t columns, const StackedLeaf* leaf) {
  const auto most = block_bytes / sizeof(float) / sparse_loops().width;
  const auto count = (columns + most - 1) / most;
  const auto high = (columns + count - 1) / count;
  for (size_t at = 0; at < columns; at += high)
    blocks_.push_back({columns_ + at, std::min(high, columns - at),
                       at + high >= columns ? leaf : nullptr, 0});
  columns_ += columns;
}

void NonzeroProduct::arrange(const NonzeroRows& a) {
  const auto width = sparse_loops().width;
  height_ = 0;
  for (const auto& block : blocks_)
    height_ = std::max(height_, block.height);
  reserve(block_, (height_ + 1) * width);
  std::fill_n(block_.data() + height_ * width, width, 0.0f);
  begin_.assign(a.starts.begin(), a.starts.end() - 1);
  end_.resize(a.rows());
  order_.resize(a.rows());
  groups_.clear();
  used_ = 0;
  for (auto& block : blocks_) {
    block.group = groups_.size();
    arrange_block(a, block);
    begin_.swap(end_);
  }
  blocks_.push_back({columns_, 0, nullptr, groups_.size()});
}

/// Rows of about as many elements go together, so that little is filled up and
/// a group's end is foreseen.
void NonzeroProduct::arrange_block(const NonzeroRows& a, const Block& block) {
  const auto rows = a.rows();
  const auto limit = block.first + block.height;
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

void NonzeroProduct::add_group(const NonzeroRows& a, const Block& block,
                               const uint32_t* rows, size_t count) {
  const auto size = sparse_loops().group;
  const auto longest = end_[rows[0]] - begin_[rows[0]];
  const auto first = static_cast<uint32_t>(block.first);
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
