#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>

namespace troupe::kernels {

/// c [rows, columns] = or += a [rows, depth] b [depth, columns], where columns
/// lie in `vectors` vectors, `left` of them in the last. Each element's sum
/// is one chain of fused multiplications and additions along the depth, from
/// zero or c; a negative zero becomes a plain one. The depth may be that of
/// several runs one after the other, as of a window's lines in an image.
struct MatrixTile {
  const float* a;
  size_t a_stride; ///< from row to row; a_turned: along the depth
  bool a_turned;   ///< a lies [depth, rows]
  const float* b;
  size_t b_stride;
  size_t depth;
  float* c;
  size_t c_stride;
  size_t rows;    ///< 1 to MatrixLoops::rows
  size_t vectors; ///< 1, 2, or MatrixLoops::wide[rows]
  size_t left;    ///< 1 to a vector's lanes, all of them of more than two
  bool add;       ///< the sum to c
  bool goes_on;   ///< with c, rather than from zero; not with add
  /// Fetched into the cache meanwhile, a line for each of b's, as wide.
  const float* soon;
  size_t soon_stride;
  size_t count; ///< of tiles, one after the other by these steps
  size_t a_step;
  size_t b_step;
  size_t c_step;
  float*
    copy; ///< null, or where b's lines go without gaps; two vectors, one tile
  size_t runs = 1;       ///< of `depth` each
  size_t a_run_step = 0; ///< from the first element of a run to the next one's
  size_t b_gap = 0;      ///< elements of b that are left out between runs
};

struct MatrixLoops {
  size_t rows; ///< most of a tile
  size_t lanes;
  size_t packed_rows;        ///< elements from line to line of a packed a
  const unsigned char* wide; ///< [rows + 1]: vectors of the widest tile
  void (*tiles)(const MatrixTile& tile);
  /// Columns of from [depth, stride] to panels [depth, `vectors` vectors] one
  /// after the other, 2 or wide[…]; those that are left over to panels of two,
  /// the last one of one if that is enough.
  void (*pack_columns)(const float* from, size_t stride, size_t columns,
                       size_t depth, float* to, size_t vectors);
  /// Columns of from [depth, stride] to panels [depth, packed_rows]: `rows` to
  /// each, and one more to the first `longer`.
  void (*pack_rows)(const float* from, size_t stride, size_t rows,
                    size_t longer, size_t panels, size_t depth, float* to);
  /// to [depth, to_stride] from the transpose [columns, from_stride].
  void (*turn)(const float* from, size_t from_stride, size_t columns,
               size_t depth, float* to, size_t to_stride);
  /// As tiles, of one row: c [columns] = or += a [depth] b, where b lies
  /// [columns, stride].
  void (*row)(const float* a, const float* b, size_t stride, size_t columns,
              size_t depth, float* c, bool add);
};

const MatrixLoops& matrix_loops(Isa isa);
const MatrixLoops& matrix_loops();

} // namespace troupe::kernels
