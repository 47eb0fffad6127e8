#pragma once

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace troupe::kernels::cuda {

// A block of four warps takes 64 queries (or keys), 16 a warp, and walks over
// the keys (or queries) in tiles. Tiles lie in shared memory with rows 16 bytes
// longer than a head, so that the eight rows of a matrix load fall into
// different banks.
constexpr uint32_t own_rows = 64;
constexpr uint32_t threads = 128;
constexpr uint32_t pad = 8;
constexpr float log2_e = 1.44269504f;

/// Rows of the tiles walked over: what fits the registers.
template <uint32_t Size>
constexpr uint32_t tile_rows = Size > 64 ? 32 : 64;
template <uint32_t Size>
constexpr uint32_t tile_stride = Size + pad;
template <uint32_t Size>
constexpr uint32_t
  shared_bytes = (2 * own_rows
                  + 2 * tile_rows<Size>)*tile_stride<Size> * sizeof(bfloat16);

struct Place {
  const AttentionArgs& args;

  __device__ uint64_t x(uint32_t part) const {
    return uint64_t{blockIdx.z} * args.length * 3 * args.width
           + part * args.width + blockIdx.y * args.head();
  }
  __device__ uint64_t y() const {
    return uint64_t{blockIdx.z} * args.length * args.width
           + blockIdx.y * args.head();
  }
  __device__ uint64_t kept() const {
    return (uint64_t{blockIdx.z} * args.heads + blockIdx.y) * args.length;
  }
  __device__ const bfloat16* in(uint32_t part) const {
    return static_cast<const bfloat16*>(args.x) + x(part);
  }
  __device__ const bfloat16* gradient() const {
    return static_cast<const bfloat16*>(args.dy) + y();
  }
};

/// Copies rows [begin, begin + Rows) of a head, zeros beyond the length.
template <uint32_t Size, uint32_t Rows>
__device__ void load_rows(bfloat16* to, const bfloat16* from, uint32_t step,
                          uint32_t begin, uint32_t length) {
  constexpr uint32_t pieces = Size / 8; // of 16 bytes
  for (auto i = threadIdx.x; i < Rows * pieces; i += threads) {
    const auto row = i / pieces;
    const auto c = i % pieces * 8;
    uint4 piece = {};
    if (begin + row < length)
      piece = *reinterpret_cast<const uint4*>(
        from + uint64_t{begin + row} * step + c);
    *reinterpret_cast<uint4*>(to + row * tile_stride<Size> + c) = piece;
  }
}

/// c [16, Columns] = own rows of a times the rows of b, over a head.
template <uint32_t Size, uint32_t Columns>
__device__ void scores(Accumulator (&c)[Columns / 8], const bfloat16* a,
                       uint32_t row, const bfloat16* b) {
#pragma unroll
  for (auto& tile : c)
    tile[0] = tile[1] = tile[2] = tile[3] = 0;
#pragma unroll
  for (uint32_t k = 0; k < Size; k += 16) {
    const auto left = load_left(a, tile_stride<Size>, row, k);
#pragma unroll
    for (uint32_t n = 0; n < Columns; n += 16)
      multiply_add(c[n / 8], c[n / 8 + 1], left,
                   load_right(b, tile_stride<Size>, n, k));
  }
}

/// c [16, Size] += a [16, Rows] times the rows of b.
template <uint32_t Size, uint32_t Rows>
__device__ void combine(Accumulator (&c)[Size / 8],
                        const Accumulator (&a)[Rows / 8], const bfloat16* b) {
#pragma unroll
  for (uint32_t k = 0; k < Rows; k += 16) {
    const auto left = as_left(a[k / 8], a[k / 8 + 1]);
#pragma unroll
    for (uint32_t n = 0; n < Size; n += 16)
      multiply_add(c[n / 8], c[n / 8 + 1], left,
                   load_right_as_is(b, tile_stride<Size>, k, n));
  }
}

/// Writes a warp's [16, Size], rows times factor, where they are below length.
template <uint32_t Size>
__device__ void store_rows(bfloat16* to, uint32_t step, uint32_t row,
                           uint32_t length, const Accumulator (&c)[Size / 8],
                           float low, float high) {
  const auto lane = threadIdx.x % warp;
  const auto upper = row + lane / 4;
  const auto lower = upper + 8;
  const auto column = lane % 4 * 2;
#pragma unroll
  for (uint32_t n = 0; n < Size / 8; ++n) {
    if (upper < length)
      *reinterpret_cast<uint32_t*>(to + uint64_t{upper} * step + n * 8
                                   + column) = pack(c[n][0] * low,
                                                    c[n][1] * low);
    if (lower < length)
      *reinterpret_cast<uint32_t*>(to + uint64_t{lower} * step + n * 8
                                   + column) = pack(c[n][2] * high,
                                                    c[n][3] * high);
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

/// Query and key of element e of block n, seen from the thread.
__device__ inline uint32_t row_at(uint32_t first, uint32_t e) {
  return first + threadIdx.x % warp / 4 + e / 2 * 8;
}
__device__ inline uint32_t column_at(uint32_t first, uint32_t n, uint32_t e) {
  return first + n * 8 + threadIdx.x % 4 * 2 + e % 2;
}

} // namespace troupe::kernels::cuda
