#include "kernels/cpu/matrix.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/cpu/matrix_loops.hpp"
#include "kernels/cpu/reserve.hpp"

#include <algorithm>
#include <utility>

// Products of matrices after Goto and van de Geijn, Anatomy of high-performance
// matrix multiplication (2008), and Van Zee and van de Geijn, BLIS (2015):
// tiles of c whose sums stay in registers, operands packed in panels that lie
// in the second cache.
//
// Bits: docs/numeric_classes.md has the rule. What follows here chooses tiles,
// orders and copies; an element's chain is the same in all of them, because a
// tile's depth is a whole block of it, or goes on where the one before ended.
//
// On the way, GFLOP/s at 768x768x768 (EPYC, Zen 4, AVX-512, a shared machine):
// each panel of b copied from where it lies by the first of 24 tiles, c fetched
// at a tile's begin 91; b packed before, 256 columns at once, c and the next b
// fetched beside some tiles 104; 128 columns 106; a packed block by block 110.
// Packing a costs more than it gives below 640 columns: 109 rather than 114 at
// 2048x128x128. A turned a gains from 256 on: its lines, as long as a page or
// two, meet in few sets of the caches (Xeon, AVX-512: 1536x384x2048 103 as they
// lie, 138 packed; 2048x512x512 128 and 148).
// Flat tiles, and more of b packed at once, on a processor that issues four
// operations a cycle (Cascade Lake, operands by turns): 256x4096x4096 90 to
// 105, 2048x256x512 110 to 123, with b turned 110 to 124, 2048x384x1536 with b
// turned 97 to 110, 1024x1024x1024 97 to 106, 4096x4096x256 with a turned 95 to
// 102, 2048x1536x384 106 to 102.

namespace troupe::kernels {

namespace {

constexpr size_t max_tiles = 288;     ///< with a's packed panels
constexpr size_t block_tiles = 12;    ///< that meet a panel of b in turn
constexpr size_t block_columns = 128; ///< of b packed at once
constexpr size_t fetched_lines = 8;   ///< of b, ahead of use
// Where a processor issues_four(): a tile of 14 rows and two vectors takes some
// 51 operations for 28 multiplications, one of 6 and four 38 for 24; and what
// the third cache has comes late.
constexpr size_t flat_rows = 6;
constexpr size_t block_elements = 128 << 10; ///< of b packed at once
constexpr size_t min_depth_to_swap_flat = 512;

// Limits between ways that give the same bits.
constexpr size_t min_tiles_to_pack_b = 9;
constexpr size_t min_columns_to_pack_a = 640;
constexpr size_t min_columns_to_pack_turned_a = 256;
constexpr size_t min_tiles_to_pack_turned_a = 24;
constexpr size_t max_depth_by_rows = 32;
constexpr size_t many_columns = 1024;
constexpr size_t max_elements_by_rows = 16 << 10; // of b

struct MatrixScratch {
  Buffer a;
  Buffer b;
};

MatrixScratch& matrix_scratch() {
  thread_local MatrixScratch scratch;
  return scratch;
}

/// c [m, n] (+)= a [m, k] b [k, n]
struct MatrixJob {
  size_t m, n, k;
  const float* a;
  const float* b;
  float* c;
  bool a_turned; ///< lies [k, m]
  bool b_turned; ///< lies [n, k]
  bool accumulate;
  bool one_chain = false; ///< along all of k, rather than one a block
  size_t length = chain_length(k);
  const MatrixLoops& loops = matrix_loops();
  MatrixScratch& scratch = matrix_scratch();
  bool may_be_flat = loops.lanes == 16 && issues_four();

  size_t flat_vectors() const { return loops.wide[flat_rows]; }
  size_t a_stride() const { return a_turned ? m : k; }
  const float* a_at(size_t row, size_t place) const {
    return a_turned ? a + place * m + row : a + row * k + place;
  }
  const float* b_at(size_t place, size_t column) const {
    return b_turned ? b + column * k + place : b + place * n + column;
  }
  /// What becomes of what is in a tile's c when it takes the block from
  /// `place`.
  void join(MatrixTile& tile, size_t place) const {
    const bool joined = accumulate || place > 0;
    tile.add = joined && !one_chain;
    tile.goes_on = joined && one_chain;
  }
};

/// Rows cut in tiles of about equal height.
struct Tiling {
  size_t count;
  size_t least;  ///< rows of a tile
  size_t longer; ///< so many have one more

  Tiling(size_t all, size_t most)
    : count((all + most - 1) / most), least(all / count), longer(all % count) {}
  size_t first(size_t i) const { return i * least + std::min(i, longer); }
  size_t rows(size_t i) const { return least + (i < longer); }
};

/// Rows of a job and a block of its depth, with all columns.
class Slab {
public:
  Slab(const MatrixJob& job, size_t row, size_t rows, size_t place)
    : job_(job),
      loops_(job.loops),
      row_(row),
      place_(place),
      depth_(std::min(job.length, job.k - place)),
      flat_(job.may_be_flat && !job.a_turned && job.n >= flat_width()
            && depth_ > max_depth_by_rows
            && rows >= min_tiles_to_pack_b * loops_.rows),
      tiling_(rows, flat_ ? flat_rows : loops_.rows) {
    by_rows_ = tiling_.count > 1 && !job.b_turned && depth_ <= max_depth_by_rows
               && depth_ * job.n <= max_elements_by_rows;
    packs_b_ = !by_rows_
               && (job.b_turned || tiling_.count >= min_tiles_to_pack_b);
    packs_a_ = !by_rows_ && !flat_ && tiling_.count > 1
               && (job.a_turned
                     ? job.n >= min_columns_to_pack_turned_a
                         && tiling_.count >= min_tiles_to_pack_turned_a
                     : job.n >= min_columns_to_pack_a);
    // One or two rows of tiles are wide rather than copy b.
    const size_t wide = loops_.wide[tiling_.rows(0)];
    const bool all = wide == loops_.wide[tiling_.rows(tiling_.count - 1)];
    widest_ = flat_ || (tiling_.count <= 2 && all) ? wide : 2;
    block_ = block_columns;
    if (flat_ || (job.may_be_flat && job.n >= many_columns))
      block_ = block_elements / depth_ / flat_width() * flat_width();
    tile_.depth = depth_;
    tile_.c_stride = job.n;
    job.join(tile_, place);
    tile_.a_turned = job.a_turned || packs_a_;
    tile_.count = 1;
    tile_.a_stride = packs_a_ ? loops_.packed_rows : job.a_stride();
  }

  void run() {
    if (by_rows_) {
      multiply_by_rows();
      return;
    }
    if (packs_a_)
      reserve(job_.scratch.a,
              tiling_.count * max_chain_length * loops_.packed_rows);
    reserve(job_.scratch.b,
            depth_ * (std::min(block_, job_.n) + max_vectors * loops_.lanes));
    for (size_t j = 0; j < job_.n; j += block_) {
      const auto columns = std::min(block_, job_.n - j);
      if (packs_b_)
        pack_b(j, columns);
      for (size_t i = 0; i < tiling_.count; i += block_tiles) {
        const auto end = std::min(i + block_tiles, tiling_.count);
        if (packs_a_ && j == 0)
          pack_a(i, end);
        multiply(i, end, j, columns);
      }
    }
  }

private:
  static constexpr size_t max_vectors = 16;

  size_t flat_width() const { return job_.flat_vectors() * loops_.lanes; }

  void pack_a(size_t from, size_t to) {
    auto* panel = packed_a(from);
    if (job_.a_turned) {
      loops_.pack_rows(job_.a_at(row_ + tiling_.first(from), place_),
                       job_.a_stride(), tiling_.least,
                       std::max(tiling_.longer, from) - from, to - from, depth_,
                       panel);
      return;
    }
    for (auto i = from; i < to; ++i)
      loops_.turn(job_.a_at(row_ + tiling_.first(i), place_), job_.a_stride(),
                  tiling_.rows(i), depth_, packed_a(i), loops_.packed_rows);
  }

  void pack_b(size_t column, size_t columns) {
    auto* to = job_.scratch.b.data();
    if (!job_.b_turned) {
      loops_.pack_columns(job_.b_at(place_, column), job_.n, columns, depth_,
                          to, widest_);
      return;
    }
    for (size_t j = 0; j < columns;) {
      const auto width = vectors(columns - j) * loops_.lanes;
      const auto there = std::min(width, columns - j);
      if (there < width)
        std::fill_n(to + j * depth_, width * depth_, 0.0f);
      loops_.turn(job_.b_at(place_, column + j), job_.k, there, depth_,
                  to + j * depth_, width);
      j += width;
    }
  }

  /// A panel of b after the other. Where b is not packed, the first tile copies
  /// its panel for the others.
  void multiply(size_t from, size_t to, size_t column, size_t columns) {
    for (size_t j = 0; j < columns;) {
      take_columns(column, j, columns);
      if (!packs_b_ && to - from > 1 && tile_.vectors == 2
          && tile_.left == loops_.lanes && widest_ == 2)
        tile_.copy = job_.scratch.b.data();
      for (size_t i = from; i < to; i += tile_.count) {
        take_rows(i, column + j);
        tile_.count = 1;
        if (!fetch_for(from, i, to, column, j))
          tile_.count = alike(i, to);
        loops_.tiles(tile_);
        if (tile_.copy != nullptr) {
          tile_.b = tile_.copy;
          tile_.b_stride = 2 * loops_.lanes;
          tile_.copy = nullptr;
        }
      }
      j += tile_.vectors * loops_.lanes;
    }
  }

  /// c from left to right: most time goes into writing it.
  void multiply_by_rows() {
    for (size_t i = 0; i < tiling_.count; ++i)
      for (size_t j = 0; j < job_.n;) {
        take_columns(0, j, job_.n);
        take_rows(i, j);
        const auto width = tile_.vectors * loops_.lanes;
        tile_.count = tile_.left == loops_.lanes ? (job_.n - j) / width : 1;
        tile_.b_step = tile_.c_step = width;
        tile_.soon = tile_.b + width;
        tile_.soon_stride = job_.n;
        loops_.tiles(tile_);
        j += tile_.count * width;
      }
  }

  void take_columns(size_t column, size_t j, size_t columns) {
    tile_.vectors = vectors(columns - j);
    tile_.left = std::min(columns - j - (tile_.vectors - 1) * loops_.lanes,
                          loops_.lanes);
    if (packs_b_) {
      tile_.b = job_.scratch.b.data() + j * depth_;
      tile_.b_stride = tile_.vectors * loops_.lanes;
    } else {
      tile_.b = job_.b_at(place_, column + j);
      tile_.b_stride = job_.n;
    }
  }

  void take_rows(size_t i, size_t column) {
    const auto first = row_ + tiling_.first(i);
    tile_.rows = tiling_.rows(i);
    tile_.a = packs_a_ ? packed_a(i) : job_.a_at(first, place_);
    tile_.c = job_.c + first * job_.n + column;
  }

  /// Tiles from i on that are as high.
  size_t alike(size_t i, size_t to) {
    tile_.a_step = packs_a_        ? depth_ * loops_.packed_rows
                   : job_.a_turned ? tile_.rows
                                   : tile_.rows * job_.k;
    tile_.b_step = 0;
    tile_.c_step = tile_.rows * job_.n;
    return (i < tiling_.longer ? std::min(to, tiling_.longer) : to) - i;
  }

  /// Most often the lines of b that follow, and false. Beside the first tile of
  /// a panel all that it adds to; beside the second a panel of b that is to be
  /// packed or copied; beside some others, a's rows that are to be packed.
  bool fetch_for(size_t from, size_t i, size_t to, size_t column, size_t j) {
    tile_.soon = tile_.b + fetched_lines * tile_.b_stride;
    tile_.soon_stride = tile_.b_stride;
    if (to - from == 1 || widest_ > 2)
      return false;
    const auto width = 2 * loops_.lanes;
    const auto turn = j / width * (to - from) + i - from;
    if (i == from) {
      if (tile_.copy != nullptr)
        return true;
      tile_.soon = tile_.c;
      tile_.soon_stride = job_.n;
      return true;
    }
    if (i == from + 1) {
      const auto next = column + j + (packs_b_ ? block_ : width);
      if (job_.b_turned || next >= job_.n)
        return false;
      tile_.soon = job_.b_at(place_, next);
      tile_.soon_stride = job_.n;
      return true;
    }
    if (!packs_a_ || job_.a_turned || column > 0 || to == tiling_.count
        || turn >= 2 + depth_ / width)
      return false;
    tile_.soon = job_.a_at(row_ + tiling_.first(to),
                           place_ + (turn - 2) * width);
    tile_.soon_stride = job_.a_stride();
    return true;
  }

  size_t vectors(size_t columns) const {
    if (columns >= widest_ * loops_.lanes)
      return widest_;
    return columns > loops_.lanes ? 2 : 1;
  }

  float* packed_a(size_t i) const {
    return job_.scratch.a.data() + i * depth_ * loops_.packed_rows;
  }

  const MatrixJob& job_;
  const MatrixLoops& loops_;
  size_t row_;
  size_t place_;
  size_t depth_;
  bool flat_;
  Tiling tiling_;
  bool by_rows_;
  bool packs_a_;
  bool packs_b_;
  size_t widest_; ///< vectors of a tile
  size_t block_;  ///< columns of b packed at once
  MatrixTile tile_ = {};
};

/// Makes a tile as wide as `left` columns need, `widest` vectors at most;
/// returns how many of them it has.
size_t take_columns(MatrixTile& tile, size_t left, size_t widest,
                    size_t lanes) {
  tile.vectors = left >= widest * lanes ? widest : left > lanes ? 2 : 1;
  const auto columns = std::min(tile.vectors * lanes, left);
  tile.left = columns - (tile.vectors - 1) * lanes;
  return columns;
}

/// Up to two tiles of rows, and a b that lies [n, k]. A few columns of c take
/// all of the depth before the next, so that b is read as it lies, and is
/// fetched ahead.
void multiply_few_rows(const MatrixJob& job) {
  const auto& loops = job.loops;
  const Tiling tiling(job.m, loops.rows);
  const size_t widest =
    loops.lanes == 16 || tiling.count > 1 ? 2 : loops.wide[tiling.rows(0)];
  MatrixTile tile = {};
  tile.a_turned = job.a_turned;
  tile.a_stride = job.a_stride();
  tile.c_stride = job.n;
  tile.count = 1;
  reserve(job.scratch.b, max_chain_length * widest * loops.lanes);
  tile.b = job.scratch.b.data();
  for (size_t j = 0; j < job.n;) {
    const auto left = job.n - j;
    const auto columns = take_columns(tile, left, widest, loops.lanes);
    const auto width = tile.vectors * loops.lanes;
    tile.b_stride = tile.soon_stride = width;
    for (size_t place = 0; place < job.k; place += job.length) {
      tile.depth = std::min(job.length, job.k - place);
      if (columns < width)
        std::fill_n(job.scratch.b.data(), tile.depth * width, 0.0f);
      loops.turn(job.b_at(place, j), job.k, columns, tile.depth,
                 job.scratch.b.data(), width);
      job.join(tile, place);
      for (size_t i = 0; i < tiling.count; ++i) {
        const auto row = tiling.first(i);
        tile.rows = tiling.rows(i);
        tile.a = job.a_at(row, place);
        tile.c = job.c + row * job.n + j;
        tile.soon = i == 0 ? job.b_at(0, j + width) + place * width : tile.b;
        loops.tiles(tile);
      }
    }
    j += width;
  }
}

/// Tells whether it costs less to turn a, and c's tiles, than to turn b.
bool better_swapped(const MatrixJob& job) {
  constexpr size_t enough = 128;
  const auto lanes = job.loops.lanes;
  const auto idle = (job.m + lanes - 1) / lanes * lanes - job.m;
  return job.b_turned && job.k >= enough && job.n >= enough && job.m <= 160
         && idle <= lanes / 4;
}

/// c^T = b^T a^T, where b lies [n, k]: its rows are the tiles' rows. A tile
/// takes all of the depth before it is turned.
class Swapped {
public:
  explicit Swapped(const MatrixJob& job)
    : job_(job),
      loops_(job.loops),
      flat_(job.may_be_flat && job.k >= min_depth_to_swap_flat
            && job.m >= job.flat_vectors() * loops_.lanes),
      tiling_(job.n, flat_ ? flat_rows : loops_.rows) {
    tile_.count = 1;
    tile_.a_stride = job.k;
    tile_.c = sums_;
    tile_.left = loops_.lanes;
  }

  void run() {
    for (size_t i = 0; i < job_.m; i += width_) {
      const auto left = job_.m - i;
      tile_.vectors = left > loops_.lanes ? 2 : 1;
      if (flat_ && left >= job_.flat_vectors() * loops_.lanes)
        tile_.vectors = job_.flat_vectors();
      width_ = tile_.vectors * loops_.lanes;
      tile_.b_stride = tile_.c_stride = tile_.soon_stride = width_;
      columns_ = std::min(width_, left);
      pack(i);
      for (size_t t = 0; t < tiling_.count; ++t)
        multiply(i, t);
    }
  }

private:
  void pack(size_t row) {
    auto& panel = job_.scratch.a;
    reserve(panel, job_.k * width_);
    if (columns_ < width_)
      std::fill_n(panel.data(), job_.k * width_, 0.0f);
    if (job_.a_turned)
      for (size_t p = 0; p < job_.k; ++p)
        std::copy_n(job_.a_at(row, p), columns_, panel.data() + p * width_);
    else
      loops_.turn(job_.a_at(row, 0), job_.k, columns_, job_.k, panel.data(),
                  width_);
  }

  void multiply(size_t row, size_t t) {
    const auto column = tiling_.first(t);
    auto* c = job_.c + row * job_.n + column;
    tile_.rows = tiling_.rows(t);
    if (job_.accumulate) {
      std::fill_n(sums_, tile_.rows * width_, 0.0f);
      loops_.turn(c, job_.n, columns_, tile_.rows, sums_, width_);
    }
    for (size_t place = 0; place < job_.k; place += job_.length) {
      tile_.depth = std::min(job_.length, job_.k - place);
      tile_.a = job_.b_at(place, column);
      tile_.b = job_.scratch.a.data() + place * width_;
      tile_.soon = tile_.b + fetched_lines * width_;
      job_.join(tile_, place);
      loops_.tiles(tile_);
    }
    loops_.turn(sums_, width_, tile_.rows, columns_, c, job_.n);
  }

  const MatrixJob& job_;
  const MatrixLoops& loops_;
  bool flat_;
  Tiling tiling_;
  size_t width_ = 0;
  size_t columns_ = 0; ///< that count
  MatrixTile tile_ = {};
  alignas(64) float sums_[14 * 32]; ///< of the largest tile, [rows, width]
};

/// Tells whether tiles of c's columns, most of whose lanes would be idle, cost
/// more than those of its rows, which are turned.
bool better_by_columns(const MatrixJob& job) {
  const auto lanes = job.loops.lanes;
  const auto padded = (job.n + lanes - 1) / lanes * lanes;
  return job.a_turned && !job.b_turned && job.k >= 32 && job.n <= 2 * lanes
         && job.m >= 2 * lanes && 4 * (padded - job.n) >= padded;
}

/// c^T = b^T a^T with few columns of c, where a lies [k, m]: both are read as
/// they lie. A tile takes all of the depth before it is turned.
void multiply_few_columns(const MatrixJob& job) {
  const auto& loops = job.loops;
  const Tiling tiling(job.n, loops.rows);
  const size_t widest = tiling.count == 1 ? loops.wide[job.n] : 2;
  alignas(64) float sums[14 * 32]; // of the largest tile, [rows, width]
  MatrixTile tile = {};
  tile.count = 1;
  tile.a_turned = true;
  tile.a_stride = job.n;
  tile.b_stride = tile.soon_stride = job.m;
  tile.c = sums;
  for (size_t i = 0; i < job.m;) {
    const auto left = job.m - i;
    const auto rows = take_columns(tile, left, widest, loops.lanes);
    const auto width = tile.vectors * loops.lanes;
    tile.c_stride = width;
    for (size_t t = 0; t < tiling.count; ++t) {
      const auto column = tiling.first(t);
      auto* c = job.c + i * job.n + column;
      tile.rows = tiling.rows(t);
      if (job.accumulate)
        loops.turn(c, job.n, rows, tile.rows, sums, width);
      for (size_t place = 0; place < job.k; place += job.length) {
        tile.depth = std::min(job.length, job.k - place);
        job.join(tile, place);
        tile.a = job.b_at(place, column);
        tile.b = job.a_at(i, place);
        tile.soon = tile.b + fetched_lines * job.m;
        loops.tiles(tile);
      }
      loops.turn(sums, width, tile.rows, rows, c, job.n);
    }
    i += rows;
  }
}

/// One row with a b that lies [n, k].
void multiply_row(const MatrixJob& job) {
  for (size_t place = 0; place < job.k; place += job.length)
    job.loops.row(job.a + place, job.b + place, job.k, job.n,
                  std::min(job.length, job.k - place), job.c,
                  job.accumulate || place > 0);
}

void run(const MatrixJob& job) {
  const auto most = max_tiles * job.loops.rows;
  for (size_t row = 0; row < job.m; row += most)
    for (size_t place = 0; place < job.k; place += job.length)
      Slab(job, row, std::min(most, job.m - row), place).run();
}

void multiply(Side side_a, Side side_b, size_t m, size_t n, size_t k,
              const float* a, const float* b, float* c, bool accumulate,
              bool one_chain) {
  if (k == 0 && !accumulate)
    std::fill_n(c, m * n, 0.0f);
  bool a_turned = side_a == Side::transposed;
  bool b_turned = side_b == Side::transposed;
  if (n == 1 && m > 1) { // one row rather than one column
    std::swap(a, b);
    std::swap(m, n);
    std::swap(a_turned, b_turned);
    a_turned = !a_turned;
    b_turned = !b_turned;
  }
  // Rows of one element lie as a row does.
  a_turned = a_turned && k > 1 && m > 1;
  b_turned = b_turned && k > 1 && n > 1;
  const MatrixJob job = {m, n,        k,        a,          b,
                         c, a_turned, b_turned, accumulate, one_chain};
  if (m == 1 && b_turned && !one_chain)
    multiply_row(job);
  else if (better_swapped(job))
    Swapped(job).run();
  else if (better_by_columns(job))
    multiply_few_columns(job);
  else if (b_turned && m <= 2 * job.loops.rows)
    multiply_few_rows(job);
  else
    run(job);
}

} // namespace

void multiply(Side side_a, Side side_b, size_t m, size_t n, size_t k,
              const float* a, const float* b, float* c, bool accumulate) {
  multiply(side_a, side_b, m, n, k, a, b, c, accumulate, false);
}

void multiply_in_one_chain(Side side_a, Side side_b, size_t m, size_t n,
                           size_t k, const float* a, const float* b, float* c,
                           bool accumulate) {
  multiply(side_a, side_b, m, n, k, a, b, c, accumulate, true);
}

} // namespace troupe::kernels

#define LEAF "kernels/cpu/matrix_leaf.inc"
#define TABLE_TYPE MatrixLoops
#define TABLE_NAME matrix_loops
#define TABLE_ENTRIES \
  max_rows, lanes, packed_rows, wide, tiles, pack_columns, pack_rows, turn, row
#include "kernels/cpu/per_isa.inc"
