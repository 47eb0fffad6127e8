#include "kernels/cpu/window_product.hpp"

#include "kernels/cpu/matrix.hpp"
#include "kernels/cpu/matrix_loops.hpp"

#include <algorithm>

namespace troupe::kernels {

namespace {

constexpr size_t max_lanes = 16;
constexpr size_t fetched_lines = 8;         ///< of b, ahead of use
constexpr size_t image_elements = 64 << 10; ///< that panels meet in turn
constexpr size_t block_elements = 8 << 10;  ///< of b that are read as they lie

size_t whole_parts(size_t all, size_t part) {
  return (all + part - 1) / part;
}

/// Rows cut in tiles of about equal height; `longer` of them have one more.
struct Heights {
  size_t count;
  size_t least;
  size_t longer;

  Heights(size_t all, size_t most)
    : count(whole_parts(all, most)), least(all / count), longer(all % count) {}
};

/// Runs the tiles of all rows of a panel: those of a height one after the
/// other. a_step, c_step: from a row to the next.
void run_tiles(const MatrixLoops& loops, const Heights& heights,
               MatrixTile& tile, size_t a_step, size_t c_step) {
  const auto* a = tile.a;
  auto* c = tile.c;
  const auto some = [&](size_t count, size_t rows) {
    if (count == 0)
      return;
    tile.count = count;
    tile.rows = rows;
    tile.a_step = rows * a_step;
    tile.c_step = rows * c_step;
    loops.tiles(tile);
    tile.a += count * tile.a_step;
    tile.c += count * tile.c_step;
  };
  some(heights.longer, heights.least + 1);
  some(heights.count - heights.longer, heights.least);
  tile.a = a;
  tile.c = c;
}

LineRange overlap(LineRange part, size_t first, size_t last, bool all) {
  const LineRange both{std::max(part.first, first), std::min(part.last, last)};
  if (both.first < both.last)
    return both;
  return all ? part : LineRange{0, 0};
}

size_t less(size_t a, size_t b) {
  return a > b ? a - b : 0;
}

} // namespace

LineRange lines_within(const Windows& windows, size_t y, LineRange part,
                       bool all) {
  const auto line = y * (windows.down_step / windows.line_step);
  return overlap(part, less(windows.first, line), less(windows.last, line),
                 all);
}

LineRange windows_within(const Windows& windows, size_t run, LineRange part,
                         bool all) {
  const auto stride = windows.down_step / windows.line_step;
  return overlap(part, whole_parts(less(windows.first, run), stride),
                 whole_parts(less(windows.last, run), stride), all);
}

PackedColumns::PackedColumns(size_t depth, size_t columns, size_t wide)
  : depth_(depth) {
  const auto& loops = matrix_loops();
  const Heights heights(wide, loops.rows);
  const size_t tall = heights.least + (heights.longer > 0);
  const size_t widest =
    std::max<size_t>(2, std::min(loops.wide[tall], loops.wide[heights.least]));
  const bool all = loops.wide[tall] == loops.wide[heights.least];
  size_t offset = 0;
  for (size_t column = 0; column < columns;) {
    const auto there = columns - column;
    const auto left = whole_parts(there, loops.lanes);
    // A panel of one vector alone is slow.
    const size_t vectors = all && there >= widest * loops.lanes
                               && left != widest + 1
                             ? widest
                             : std::min<size_t>(left, 2);
    const auto width = vectors * loops.lanes;
    panels_.push_back(
      {column, vectors,
       std::min(there - (vectors - 1) * loops.lanes, loops.lanes), offset});
    offset += depth * width;
    column += width;
  }
}

size_t PackedColumns::size(size_t depth, size_t columns) {
  return depth * whole_parts(columns, max_lanes) * max_lanes;
}

void PackedColumns::pack(const float* from, size_t stride, float* to) {
  const auto lanes = matrix_loops().lanes;
  packed_ = to;
  for (const auto& panel : panels_) {
    const auto width = panel.vectors * lanes;
    const auto there = width - lanes + panel.left;
    for (size_t k = 0; k < depth_; ++k) {
      const auto* line = from + k * stride + panel.column;
      auto* out = to + panel.offset + k * width;
      size_t j = 0;
      for (; j + 4 <= there; j += 4) // a call for each line costs as much again
        std::copy_n(line + j, 4, out + j);
      std::copy_n(line + j, there - j, out + j);
    }
  }
}

void PackedColumns::pack_turned(const float* from, size_t stride, size_t first,
                                size_t rows, float* to) {
  const auto& loops = matrix_loops();
  packed_ = to;
  for (const auto& panel : panels_) {
    const auto width = panel.vectors * loops.lanes;
    loops.turn(from + panel.column * stride, stride,
               width - loops.lanes + panel.left, rows,
               to + panel.offset + first * width, width);
  }
}

/// A block of a panel stays in the first cache while windows meet it, and so
/// many lines of windows in the second while panels do.
void multiply(const Windows& windows, const PackedColumns& b, float* c,
              size_t c_stride, size_t c_down_step) {
  const auto& loops = matrix_loops();
  const Heights heights(windows.wide, loops.rows);
  const auto high = std::max<size_t>(1, image_elements / windows.down_step);
  MatrixTile tile = {};
  tile.a_stride = windows.window_step;
  tile.a_run_step = windows.line_step;
  tile.c_stride = c_stride;
  const auto of_lines = [&](LineRange windows_lines, size_t column,
                            const float* panel) {
    each_block(
      windows.runs, windows.length,
      [&](LineRange lines, size_t place, size_t places) {
        tile.depth = places;
        tile.add = lines.first > 0 || place > 0;
        for (auto y = windows_lines.first; y < windows_lines.last; ++y) {
          const auto within = lines_within(windows, y, lines, !tile.add);
          if (within.count() == 0)
            continue;
          tile.runs = within.count();
          tile.b = panel
                   + (within.first * windows.length + place) * tile.b_stride;
          tile.soon = tile.b + fetched_lines * tile.b_stride;
          tile.a = windows.image + y * windows.down_step
                   + within.first * windows.line_step + place;
          tile.c = c + y * c_down_step + column;
          run_tiles(loops, heights, tile, windows.window_step, c_stride);
        }
      });
  };
  for (size_t y = 0; y < windows.high; y += high)
    for (const auto& panel : b.panels()) {
      tile.vectors = panel.vectors;
      tile.left = panel.left;
      tile.b_stride = tile.soon_stride = panel.vectors * loops.lanes;
      of_lines({y, std::min(y + high, windows.high)}, panel.column,
               b.at(panel));
    }
}

namespace {

/// As multiply_transposed, with lines of windows as vectors: for c of few
/// columns, whose tiles would be narrow. c^T lies in scratch meanwhile.
void multiply_turned(const Windows& windows, const float* b, size_t b_stride,
                     size_t columns, float* c, size_t c_stride, bool accumulate,
                     float* scratch) {
  const auto& loops = matrix_loops();
  const Heights heights(columns, loops.rows);
  const auto length = windows.length;
  const PackedColumns parts(0, length, columns);
  MatrixTile tile = {};
  tile.a_turned = true;
  tile.a_stride = b_stride;
  tile.b_stride = tile.soon_stride = windows.window_step;
  tile.c_stride = length;
  for (size_t run = 0; accumulate && run < windows.runs; ++run)
    loops.turn(c + run * length * c_stride, c_stride, length, columns,
               scratch + run * length * columns, length);
  each_block(windows.high, windows.wide,
             [&](LineRange lines, size_t place, size_t places) {
               tile.depth = places;
               tile.a_run_step = places * b_stride;
               tile.b_gap = windows.down_step - places * windows.window_step;
               tile.add = accumulate || lines.first > 0 || place > 0;
               for (size_t run = 0; run < windows.runs; ++run) {
                 const auto within = windows_within(windows, run, lines,
                                                    !tile.add);
                 if (within.count() == 0)
                   continue;
                 tile.runs = within.count();
                 tile.a = b + (within.first * windows.wide + place) * b_stride;
                 for (const auto& panel : parts.panels()) {
                   tile.vectors = panel.vectors;
                   tile.left = panel.left;
                   tile.b = windows.image + within.first * windows.down_step
                            + place * windows.window_step
                            + run * windows.line_step + panel.column;
                   tile.soon = tile.b + fetched_lines * tile.b_stride;
                   tile.c = scratch + run * length * columns + panel.column;
                   run_tiles(loops, heights, tile, 1, length);
                 }
               }
             });
  for (size_t run = 0; run < windows.runs; ++run)
    loops.turn(scratch + run * length * columns, length, columns, length,
               c + run * length * c_stride, c_stride);
}

} // namespace

/// A block of b is packed for all rows of c that it goes to, unless all of it
/// stays in the first cache.
void multiply_transposed(const Windows& windows, const float* b,
                         size_t b_stride, size_t columns, float* c,
                         size_t c_stride, bool accumulate, float* scratch) {
  const auto& loops = matrix_loops();
  if (columns <= loops.lanes && windows.length > 2 * loops.lanes) {
    multiply_turned(windows, b, b_stride, columns, c, c_stride, accumulate,
                    scratch);
    return;
  }
  const Heights heights(windows.length, loops.rows);
  MatrixTile tile = {};
  tile.a_turned = true;
  tile.a_stride = windows.window_step;
  tile.a_run_step = windows.down_step;
  tile.c_stride = c_stride;
  each_block(
    windows.high, windows.wide,
    [&](LineRange lines, size_t place, size_t places) {
      const auto depth = lines.count() * places;
      const auto* block = b + (lines.first * windows.wide + place) * b_stride;
      const bool lies = depth * b_stride <= block_elements;
      PackedColumns packed(depth, columns, windows.length);
      if (!lies)
        packed.pack(block, b_stride, scratch);
      tile.depth = places;
      tile.add = accumulate || lines.first > 0 || place > 0;
      for (const auto& panel : packed.panels()) {
        tile.vectors = panel.vectors;
        tile.left = panel.left;
        tile.b_stride = lies ? b_stride : panel.vectors * loops.lanes;
        tile.soon_stride = tile.b_stride;
        for (size_t run = 0; run < windows.runs; ++run) {
          const auto within = windows_within(windows, run, lines, !tile.add);
          if (within.count() == 0)
            continue;
          tile.runs = within.count();
          tile.b = (lies ? block + panel.column : packed.at(panel))
                   + (within.first - lines.first) * places * tile.b_stride;
          tile.soon = tile.b + fetched_lines * tile.b_stride;
          tile.a = windows.image + within.first * windows.down_step
                   + place * windows.window_step + run * windows.line_step;
          tile.c = c + run * windows.length * c_stride + panel.column;
          run_tiles(loops, heights, tile, 1, c_stride);
        }
      }
    });
}

} // namespace troupe::kernels
