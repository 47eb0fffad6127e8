#pragma once

#include "kernels/cuda/kernel.cuh"

namespace troupe::kernels::cuda {

// What a warp needs for products of bfloat16 tiles: c [16, 8] += a [16, 16]
// b [16, 8], each thread holding the elements that the PTX manual assigns to it
// for mma.m16n8k16. Thread 4 g + t has of c the rows g (elements 0, 1) and
// g + 8 (2, 3), columns 2 t and 2 t + 1.

using Accumulator = float[4];

struct LeftTile {
  uint32_t part[4];
};
struct RightTiles { ///< two, side by side: b [16, 16]
  uint32_t part[4];
};

__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline void load_matrices(uint32_t (&to)[4], const bfloat16* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, "
               "[%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(p))
               : "memory");
}

__device__ inline void load_transposed(uint32_t (&to)[4], const bfloat16* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
               "{%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(p))
               : "memory");
}

/// Begins to copy 16 bytes from global to shared memory, zeros where they are
/// not there; a thread waits for its own copies.
__device__ inline void copy_async(bfloat16* to, const bfloat16* from,
                                  bool there) {
  const uint32_t bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(to)), "l"(from), "r"(bytes)
               : "memory");
}
/// As for 16 bytes, of N floats by way of the first cache: what lies beside is
/// often read as well.
template <uint32_t N>
__device__ inline void copy_async(float* to, const float* from, bool there) {
  const uint32_t bytes = there ? N * sizeof(float) : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               :
               : "r"(shared_address(to)), "l"(from), "n"(N * sizeof(float)),
                 "r"(bytes)
               : "memory");
}
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_all;" : : : "memory");
}

/// Rows and columns from (row, column) on of a row-major tile.
__device__ inline LeftTile load_left(const bfloat16* tile, uint32_t stride,
                                     uint32_t row, uint32_t column) {
  const auto lane = threadIdx.x % warp;
  LeftTile a;
  load_matrices(a.part,
                tile + (row + lane % 16) * stride + column + lane / 16 * 8);
  return a;
}

/// b[k][n] = tile[n][k]: the tile's rows are the columns of b.
__device__ inline RightTiles load_right(const bfloat16* tile, uint32_t stride,
                                        uint32_t n, uint32_t k) {
  const auto lane = threadIdx.x % warp;
  RightTiles b;
  load_matrices(b.part, tile + (n + lane % 8 + lane / 16 * 8) * stride + k
                          + lane / 8 % 2 * 8);
  return b;
}

/// b[k][n] = tile[k][n].
__device__ inline RightTiles load_right_as_is(const bfloat16* tile,
                                              uint32_t stride, uint32_t k,
                                              uint32_t n) {
  const auto lane = threadIdx.x % warp;
  RightTiles b;
  load_transposed(b.part, tile + (k + lane % 16) * stride + n + lane / 16 * 8);
  return b;
}

__device__ inline void multiply_add(Accumulator& c, const LeftTile& a,
                                    uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a.part[0]), "r"(a.part[1]), "r"(a.part[2]), "r"(a.part[3]),
                 "r"(b0), "r"(b1));
}

/// Two neighbours of c at once.
__device__ inline void multiply_add(Accumulator& left, Accumulator& right,
                                    const LeftTile& a, const RightTiles& b) {
  multiply_add(left, a, b.part[0], b.part[1]);
  multiply_add(right, a, b.part[2], b.part[3]);
}

__device__ inline uint32_t pack(float low, float high) {
  const auto both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

/// Two neighbouring results, [16, 16], as the left side of another product.
__device__ inline LeftTile as_left(const Accumulator& left,
                                   const Accumulator& right) {
  LeftTile a;
  a.part[0] = pack(left[0], left[1]);
  a.part[1] = pack(left[2], left[3]);
  a.part[2] = pack(right[0], right[1]);
  a.part[3] = pack(right[2], right[3]);
  return a;
}

} // namespace troupe::kernels::cuda
