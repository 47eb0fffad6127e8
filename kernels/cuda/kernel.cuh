#pragma once

// For .cu files: what their kernels share.

#include "kernels/graph/graph.hpp"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace troupe::kernels::cuda {

using bfloat16 = __nv_bfloat16;

constexpr uint32_t warp = 32;
constexpr uint32_t everyone = 0xffffffffu;
constexpr uint32_t flat_threads = 256;

__host__ __device__ inline uint64_t over(uint64_t items, uint64_t each) {
  return (items + each - 1) / each;
}

__device__ inline float value_of(float x) {
  return x;
}
__device__ inline float value_of(bfloat16 x) {
  return __bfloat162float(x);
}

template <class T>
__device__ inline T rounded(float x);
template <>
__device__ inline float rounded<float>(float x) {
  return x;
}
template <>
__device__ inline bfloat16 rounded<bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/// The sum over a warp, in every lane; a fixed tree.
template <class T>
__device__ inline T warp_sum(T x) {
  for (uint32_t apart = warp / 2; apart > 0; apart /= 2)
    x += __shfl_xor_sync(everyone, x, apart);
  return x;
}

/// The sum over a block of up to 1024 threads, a multiple of 32, in every
/// thread; a fixed tree. All threads call.
template <class T>
__device__ inline T block_sum(T x) {
  __shared__ T partial[warp];
  x = warp_sum(x);
  __syncthreads(); // an earlier call's sums have been read
  if (threadIdx.x % warp == 0)
    partial[threadIdx.x / warp] = x;
  __syncthreads();
  const auto warps = blockDim.x / warp;
  x = threadIdx.x % warp < warps ? partial[threadIdx.x % warp] : T{};
  return warp_sum(x);
}

/// Calls f(i) for every i below count, each by one thread.
template <class F>
__global__ void __launch_bounds__(flat_threads)
  each_kernel(uint64_t count, const __grid_constant__ F f) {
  const auto step = uint64_t{gridDim.x} * blockDim.x;
  for (auto i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += step)
    f(i);
}

template <class F>
void launch_each(uint64_t count, const F& f, cudaStream_t stream) {
  if (count == 0)
    return;
  constexpr uint64_t most = 132 * 8 * 8;
  const auto wanted = over(count, flat_threads);
  each_kernel<<<static_cast<uint32_t>(wanted < most ? wanted : most),
                flat_threads, 0, stream>>>(count, f);
}

// -- functions to about 2^-22 of their value, too small results zero ----------

__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// The relative error grows as |x| 2^-24 does.
__device__ inline float exp_of(float x) {
  return exp2_of(x * 1.44269504f);
}
/// 0 of infinities, and infinite of what is too small.
__device__ inline float inverse_of(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// -- activations --------------------------------------------------------------

__device__ inline float sigmoid_of(float z) {
  return inverse_of(1.0f + exp_of(-z));
}

/// The normal distribution and its density: see
/// kernels/cpu/activation_leaf.inc.
struct Normal {
  float distribution;
  float density;
};

__device__ inline Normal normal_of(float x) {
  const float a = fminf(fabsf(x), 1e4f);
  const float t = (a - 3.5f) * inverse_of(a + 3.5f);
  float p = -2.14699540e-5f;
  p = fmaf(p, t, 1.20747362e-4f);
  p = fmaf(p, t, 3.60735871e-4f);
  p = fmaf(p, t, -1.37920550e-3f);
  p = fmaf(p, t, -1.55156886e-3f);
  p = fmaf(p, t, 1.90653801e-2f);
  p = fmaf(p, t, -6.16406873e-2f);
  p = fmaf(p, t, 1.25855297e-1f);
  p = fmaf(p, t, -1.87139660e-1f);
  p = fmaf(p, t, 1.06345154e-1f);
  const float e = exp2_of(x * x * -0.72134752f);
  const float tail = p * e;
  return {x < 0 ? tail : 1.0f - tail, e * 0.39894228f};
}

/// What gelu_tanh(z) is z times of.
__device__ inline float logistic(float z) {
  return sigmoid_of(z * (1.59576912f + 0.0713548163f * z * z));
}

__device__ inline float activate(Activation kind, float z) {
  switch (kind) {
    case Activation::none:
      return z;
    case Activation::relu:
      return z < 0 ? 0.0f : z; // a NaN stays
    case Activation::gelu:
      return z * normal_of(z).distribution;
    case Activation::silu:
      return z * sigmoid_of(z);
    case Activation::tanh:
      return tanhf(z);
    case Activation::sigmoid:
      return sigmoid_of(z);
    case Activation::gelu_tanh:
      return z * logistic(z);
  }
  return z;
}

/// The gradient d before the activation; `at` is what it gave, of gelu,
/// gelu_tanh and silu what it was given.
__device__ inline float activate_back(Activation kind, float at, float d) {
  switch (kind) {
    case Activation::none:
      return d;
    case Activation::relu:
      return at <= 0 ? 0.0f : d;
    case Activation::gelu: {
      const auto normal = normal_of(at);
      return d * (normal.distribution + at * normal.density);
    }
    case Activation::silu: {
      const float s = sigmoid_of(at);
      return d * (s * (1.0f + at * (1.0f - s)));
    }
    case Activation::tanh:
      return d * (1.0f - at * at);
    case Activation::sigmoid:
      return d * (at * (1.0f - at));
    case Activation::gelu_tanh: {
      const float z = fminf(fmaxf(at, -1e4f), 1e4f);
      const float s = logistic(z);
      const float slope = 1.59576912f + 0.214064449f * z * z;
      return d * (s * (1.0f + z * (1.0f - s) * slope));
    }
  }
  return d;
}

} // namespace troupe::kernels::cuda
