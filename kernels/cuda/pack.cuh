#pragma once

// For .cu files: values that lie side by side, moved at once and computed with
// in float32.

#include "kernels/cuda/kernel.cuh"

namespace troupe::kernels::cuda {

template <uint32_t N>
struct Values {
  float at[N];

  __device__ float& operator[](uint32_t k) { return at[k]; }
  __device__ float operator[](uint32_t k) const { return at[k]; }
};

/// What one access moves: 16 bytes at most.
template <class Word, uint32_t N>
struct alignas(N * sizeof(Word) < 16 ? N * sizeof(Word) : 16) Words {
  Word at[N];
};

/// N values from where a multiple of N of them lies before. A bfloat16 is the
/// upper half of a float32.
template <uint32_t N>
__device__ inline Values<N> load(const float* from) {
  const auto words = *reinterpret_cast<const Words<float, N>*>(from);
  Values<N> x;
#pragma unroll
  for (uint32_t k = 0; k < N; ++k)
    x[k] = words.at[k];
  return x;
}
template <uint32_t N>
__device__ inline Values<N> load(const bfloat16* from) {
  Values<N> x;
  if constexpr (N == 1) {
    x[0] = value_of(*from);
  } else {
    const auto words = *reinterpret_cast<const Words<uint32_t, N / 2>*>(from);
#pragma unroll
    for (uint32_t k = 0; k < N / 2; ++k) {
      x[2 * k] = __uint_as_float(words.at[k] << 16);
      x[2 * k + 1] = __uint_as_float(words.at[k] & 0xffff0000u);
    }
  }
  return x;
}

template <uint32_t N>
__device__ inline void store(const Values<N>& x, float* to) {
  Words<float, N> words;
#pragma unroll
  for (uint32_t k = 0; k < N; ++k)
    words.at[k] = x[k];
  *reinterpret_cast<Words<float, N>*>(to) = words;
}
template <uint32_t N>
__device__ inline void store(const Values<N>& x, bfloat16* to) {
  if constexpr (N == 1) {
    *to = rounded<bfloat16>(x[0]);
  } else {
    Words<uint32_t, N / 2> words;
#pragma unroll
    for (uint32_t k = 0; k < N / 2; ++k) {
      const auto pair = __floats2bfloat162_rn(x[2 * k], x[2 * k + 1]);
      words.at[k] = *reinterpret_cast<const uint32_t*>(&pair);
    }
    *reinterpret_cast<Words<uint32_t, N / 2>*>(to) = words;
  }
}

/// Stores x, or adds it to what is there.
template <uint32_t N, class T>
__device__ inline void give(Values<N> x, T* to, bool accumulate) {
  if (accumulate) {
    const auto before = load<N>(to);
#pragma unroll
    for (uint32_t k = 0; k < N; ++k)
      x[k] = before[k] + x[k];
  }
  store(x, to);
}

/// Calls f<X, Y>() with the types in which two values are kept.
template <class F>
void with_types(bool half_x, bool half_y, const F& f) {
  if (half_x)
    half_y ? f.template operator()<bfloat16, bfloat16>()
           : f.template operator()<bfloat16, float>();
  else
    half_y ? f.template operator()<float, bfloat16>()
           : f.template operator()<float, float>();
}

/// Calls f<N>() with how many of so many elements beside each other one thread
/// takes at once: 8, or 1 where they come out in no eights.
template <class F>
void with_pack(uint64_t beside, const F& f) {
  if (beside % 8 == 0)
    f.template operator()<8>();
  else
    f.template operator()<1>();
}

} // namespace troupe::kernels::cuda
