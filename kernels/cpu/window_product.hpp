#pragma once

#include "kernels/cpu/matrix.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace troupe::kernels {

/// Windows of an image whose pixels lie one after the other, channels last, and
/// which has its border of zeros, if any: [high, wide] windows of `runs` lines
/// with `length` adjacent elements each. As a matrix: a row a window, in which
/// its lines follow each other; it is never written out.
struct Windows {
  const float* image;
  size_t line_step;   ///< elements from a line of the image to the next
  size_t window_step; ///< elements from a window to the one on its right
  size_t down_step;   ///< elements from a window to the one below
  size_t high, wide;
  size_t runs, length;
  size_t first, last; ///< lines of the image within its border: [first, last)
};

/// [first, last)
struct LineRange {
  size_t first, last;
  size_t count() const { return last - first; }
};

/// Of the lines `part` of windows in line y, or of windows' lines that see line
/// `run` of theirs: those within the border. The others are zeros, which change
/// no sum. Where there are none: all if `all`, else none.
LineRange lines_within(const Windows& windows, size_t y, LineRange part,
                       bool all);
LineRange windows_within(const Windows& windows, size_t run, LineRange part,
                         bool all);

/// Calls f(lines, first place, places) for each block of a chain along `runs`
/// lines of `length` places, as docs/numeric_classes.md cuts them.
template <class F>
void each_block(size_t runs, size_t length, const F& f) {
  const auto parts = [](size_t all, size_t part) {
    return (all + part - 1) / part;
  };
  if (length > max_chain_length) {
    const auto piece = chain_length(length);
    for (size_t run = 0; run < runs; ++run)
      for (size_t place = 0; place < length; place += piece)
        f(LineRange{run, run + 1}, place, std::min(piece, length - place));
    return;
  }
  const auto together = parts(runs, parts(runs, max_chain_length / length));
  for (size_t run = 0; run < runs; run += together)
    f(LineRange{run, std::min(run + together, runs)}, size_t{0}, length);
}

/// A matrix [depth, columns] in panels as wide as the tiles that read it.
class PackedColumns {
public:
  /// For windows `wide` in a line.
  PackedColumns(size_t depth, size_t columns, size_t wide);
  static size_t size(size_t depth, size_t columns); ///< elements, at most

  /// from: [depth, stride] of which `columns` count. to: size() elements.
  void pack(const float* from, size_t stride, float* to);
  /// Some rows of it, which lie turned: [columns, stride] of which `rows`
  /// count.
  void pack_turned(const float* from, size_t stride, size_t first, size_t rows,
                   float* to);

  struct Panel {
    size_t column;
    size_t vectors;
    size_t left; ///< columns of the last vector
    size_t offset;
  };
  const std::vector<Panel>& panels() const { return panels_; }
  const float* at(const Panel& panel) const { return packed_ + panel.offset; }

private:
  size_t depth_;
  std::vector<Panel> panels_;
  const float* packed_ = nullptr;
};

// Products with the matrix of windows. The sum of an element is cut into
// blocks, each one chain of fused multiply-adds as a product's is, which are
// joined in order (docs/numeric_classes.md): lines of a window, or of windows,
// while they have at most max_chain_length places together; a longer line is
// cut as a product's depth is. Bits follow from operands, runs, length, high
// and wide. On this thread alone.

/// c [high, wide, columns] = windows b, where windows lie c_stride elements
/// apart in c, and lines of them c_down_step.
void multiply(const Windows& windows, const PackedColumns& b, float* c,
              size_t c_stride, size_t c_down_step);

/// c [runs, length, columns] = or += windows^T b with b [high, wide, columns],
/// whose rows lie b_stride elements apart, c's c_stride.
/// scratch: PackedColumns::size(max_chain_length, columns) elements, or as many
/// as c has, if these are more.
void multiply_transposed(const Windows& windows, const float* b,
                         size_t b_stride, size_t columns, float* c,
                         size_t c_stride, bool accumulate, float* scratch);

} // namespace troupe::kernels
