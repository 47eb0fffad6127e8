#pragma once

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace troupe::kernels::cuda {

// A block of four warps owns some queries (or keys), each warp its rows of
// them, and walks over the keys (or queries) in tiles: it works on one stage
// while the next is on its way. Rows in shared memory are 16 bytes longer than
// a head, so that the eight rows of a matrix load fall into different banks.
constexpr uint32_t warps = 4;
constexpr uint32_t threads = warps * warp;
constexpr float log2_e = 1.44269504f;

// What fits the registers. A matrix loaded from shared memory multiplies all of
// a warp's rows: fewer rows would make shared memory the limit.
template <uint32_t Size>
constexpr uint32_t row_tiles = Size > 64 ? 1 : 2; ///< of 16, of a warp
template <uint32_t Size>
constexpr uint32_t warp_rows = 16 * row_tiles<Size>;
template <uint32_t Size>
constexpr uint32_t own_rows = warps* warp_rows<Size>;
template <uint32_t Size>
constexpr uint32_t stage_rows = Size > 64 ? 32 : 64;
template <uint32_t Size>
constexpr uint32_t row_stride = Size + 8;

/// [warp_rows, Columns] of a warp.
template <uint32_t Size, uint32_t Columns>
using Sums = Accumulator[row_tiles<Size>][Columns / 8];

template <uint32_t Size>
struct Stage {
  bfloat16 first[stage_rows<Size> * row_stride<Size>];  ///< keys, or queries
  bfloat16 second[stage_rows<Size> * row_stride<Size>]; ///< values, or dy
  float kept[stage_rows<Size>]; ///< of queries, as delta
  float delta[stage_rows<Size>];
};

/// A block's shared memory.
template <uint32_t Size>
struct Tiles {
  bfloat16 own[2][own_rows<Size> * row_stride<Size>];
  Stage<Size> stage[2];
};

/// Of the block's row, blockIdx.y.
struct Place {
  const AttentionArgs& args;
  uint32_t head;

  __device__ uint64_t x(uint32_t part) const {
    return uint64_t{blockIdx.y} * args.length * args.stride()
           + args.first(part, head);
  }
  __device__ uint64_t y() const {
    return uint64_t{blockIdx.y} * args.length * args.width() + head * args.head;
  }
  __device__ uint64_t kept() const {
    return (uint64_t{blockIdx.y} * args.heads + head) * args.length;
  }
  __device__ const bfloat16* in(uint32_t part) const {
    return static_cast<const bfloat16*>(args.x) + x(part);
  }
  __device__ const bfloat16* gradient() const {
    return static_cast<const bfloat16*>(args.dy) + y();
  }
};

/// Begins to copy rows [begin, begin + Rows) of a head, zeros beyond the
/// length.
template <uint32_t Size, uint32_t Rows>
__device__ void copy_rows(bfloat16* to, const bfloat16* from, uint32_t step,
                          uint32_t begin, uint32_t length) {
  constexpr uint32_t pieces = Size / 8; // of 16 bytes
#pragma unroll
  for (uint32_t i = 0; i < Rows * pieces / threads; ++i) {
    const auto row = i * (threads / pieces) + threadIdx.x / pieces;
    const auto c = threadIdx.x % pieces * 8;
    copy_async(to + row * row_stride<Size> + c,
               from + uint64_t{begin + row} * step + c, begin + row < length);
  }
}

/// What all threads of the block copy has arrived, and nobody reads any more
/// what was there before.
__device__ inline void await_stage() {
  wait_for_copies();
  __syncthreads();
}

/// A warp's own rows as the left side of products: in registers, or read from
/// shared memory each time.
template <uint32_t Size>
struct KeptRows {
  LeftTile tile[row_tiles<Size>][Size / 16];

  __device__ explicit KeptRows(const bfloat16* rows) {
#pragma unroll
    for (uint32_t m = 0; m < row_tiles<Size>; ++m)
#pragma unroll
      for (uint32_t k = 0; k < Size / 16; ++k)
        tile[m][k] = load_left(rows, row_stride<Size>, 16 * m, 16 * k);
  }
  __device__ LeftTile operator()(uint32_t m, uint32_t k) const {
    return tile[m][k];
  }
};
template <uint32_t Size>
struct SharedRows {
  const bfloat16* rows;

  __device__ LeftTile operator()(uint32_t m, uint32_t k) const {
    return load_left(rows, row_stride<Size>, 16 * m, 16 * k);
  }
};

/// c = own rows times the rows of b, over a head.
template <uint32_t Size, uint32_t Columns, class Rows>
__device__ void
scores(Sums<Size, Columns>& c, const Rows& own, const bfloat16* b) {
#pragma unroll
  for (auto& row : c)
#pragma unroll
    for (auto& tile : row)
      tile[0] = tile[1] = tile[2] = tile[3] = 0;
#pragma unroll
  for (uint32_t k = 0; k < Size / 16; ++k) {
    LeftTile left[row_tiles<Size>];
#pragma unroll
    for (uint32_t m = 0; m < row_tiles<Size>; ++m)
      left[m] = own(m, k);
#pragma unroll
    for (uint32_t n = 0; n < Columns; n += 16) {
      const auto right = load_right(b, row_stride<Size>, n, 16 * k);
#pragma unroll
      for (uint32_t m = 0; m < row_tiles<Size>; ++m)
        multiply_add(c[m][n / 8], c[m][n / 8 + 1], left[m], right);
    }
  }
}

/// c += a times Rows rows of b.
template <uint32_t Size, uint32_t Rows>
__device__ void
combine(Sums<Size, Size>& c, const Sums<Size, Rows>& a, const bfloat16* b) {
#pragma unroll
  for (uint32_t k = 0; k < Rows; k += 16) {
    LeftTile left[row_tiles<Size>];
#pragma unroll
    for (uint32_t m = 0; m < row_tiles<Size>; ++m)
      left[m] = as_left(a[m][k / 8], a[m][k / 8 + 1]);
#pragma unroll
    for (uint32_t n = 0; n < Size; n += 16) {
      const auto right = load_right_as_is(b, row_stride<Size>, k, n);
#pragma unroll
      for (uint32_t m = 0; m < row_tiles<Size>; ++m)
        multiply_add(c[m][n / 8], c[m][n / 8 + 1], left[m], right);
    }
  }
}

/// Row and column of element e of a tile, seen from the thread.
__device__ inline uint32_t row_at(uint32_t first, uint32_t m, uint32_t e) {
  return first + m * 16 + threadIdx.x % warp / 4 + e / 2 * 8;
}
__device__ inline uint32_t column_at(uint32_t first, uint32_t n, uint32_t e) {
  return first + n * 8 + threadIdx.x % 4 * 2 + e % 2;
}

/// A number of each of a thread's rows.
template <uint32_t Size>
struct RowValues {
  float of[row_tiles<Size>][2];

  __device__ explicit RowValues(float all) {
#pragma unroll
    for (auto& both : of)
      both[0] = both[1] = all;
  }
};

/// Writes a warp's rows, each times its factor, where they are below length.
/// Neighbours exchange halves of two tiles: 8 bytes a thread, 32 in a row.
template <uint32_t Size>
__device__ void store_rows(bfloat16* to, uint32_t step, uint32_t row,
                           uint32_t length, const Sums<Size, Size>& c,
                           const RowValues<Size>& factor) {
  const bool odd = threadIdx.x % 2 != 0;
  const auto column = odd ? column_at(8, 0, 0) - 2 : column_at(0, 0, 0);
#pragma unroll
  for (uint32_t m = 0; m < row_tiles<Size>; ++m)
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const auto at = row_at(row, m, 2 * h);
      const auto packed = [&](uint32_t n) {
        return pack(c[m][n][2 * h] * factor.of[m][h],
                    c[m][n][2 * h + 1] * factor.of[m][h]);
      };
#pragma unroll
      for (uint32_t n = 0; n < Size / 8; n += 2) {
        const auto left = packed(n);
        const auto right = packed(n + 1);
        const auto given = __shfl_xor_sync(everyone, odd ? left : right, 1);
        if (at < length)
          *reinterpret_cast<uint2*>(to + uint64_t{at} * step + column + n * 8) =
            odd ? uint2{given, right} : uint2{left, given};
      }
    }
}

/// The largest, or the sum, over the four threads that share a row.
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(everyone, x, 1));
  return fmaxf(x, __shfl_xor_sync(everyone, x, 2));
}
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(everyone, x, 1);
  return x + __shfl_xor_sync(everyone, x, 2);
}

} // namespace troupe::kernels::cuda
