#include "kernels/cuda/convolution.cuh"
#include "kernels/cuda/kernel.cuh"

namespace troupe::kernels::cuda {

namespace {

struct Forward {
  DirectConvolution s;
  const float* x;
  const float* w;
  float* y;

  __device__ void operator()(uint64_t i) const {
    const auto u = static_cast<uint32_t>(i % s.units);
    const auto b = static_cast<uint32_t>(i / s.units % s.wide) * s.stride;
    const auto a = static_cast<uint32_t>(i / s.units / s.wide % s.high)
                   * s.stride;
    const auto row = i / s.units / s.wide / s.high;
    const auto inner = s.channels / s.groups;
    const auto first = u / (s.units / s.groups) * inner;
    float sum = 0;
    for (uint32_t p = 0; p < s.kernel; ++p)
      for (uint32_t q = 0; q < s.kernel; ++q) {
        const auto h = a + p;
        const auto v = b + q;
        if (h < s.padding || h >= s.height + s.padding || v < s.padding
            || v >= s.width + s.padding)
          continue;
        const auto* from =
          x
          + ((row * s.height + h - s.padding) * s.width + v - s.padding)
              * s.channels
          + first;
        const auto* weight = w + uint64_t{p * s.kernel + q} * inner * s.units
                             + u;
        for (uint32_t c = 0; c < inner; ++c)
          sum += from[c] * weight[uint64_t{c} * s.units];
      }
    y[i] = sum;
  }
};

struct InputGradient {
  DirectConvolution s;
  const float* dy;
  const float* w;
  float* dx;

  __device__ void operator()(uint64_t i) const {
    const auto c = static_cast<uint32_t>(i % s.channels);
    const auto v = static_cast<uint32_t>(i / s.channels % s.width) + s.padding;
    const auto h = static_cast<uint32_t>(i / s.channels / s.width % s.height)
                   + s.padding;
    const auto row = i / s.channels / s.width / s.height;
    const auto inner = s.channels / s.groups;
    const auto units = s.units / s.groups;
    const auto first = c / inner * units;
    float sum = 0;
    for (uint32_t p = 0; p < s.kernel && p <= h; ++p)
      for (uint32_t q = 0; q < s.kernel && q <= v; ++q) {
        const auto a = (h - p) / s.stride;
        const auto b = (v - q) / s.stride;
        if ((h - p) % s.stride != 0 || (v - q) % s.stride != 0 || a >= s.high
            || b >= s.wide)
          continue;
        const auto* from = dy + ((row * s.high + a) * s.wide + b) * s.units
                           + first;
        const auto* weight =
          w + (uint64_t{p * s.kernel + q} * inner + c % inner) * s.units
          + first;
        for (uint32_t u = 0; u < units; ++u)
          sum += from[u] * weight[u];
      }
    dx[i] = sum;
  }
};

// A block takes one weight and adds up over all rows and places.
__global__ void __launch_bounds__(flat_threads)
  weight_gradient_kernel(const __grid_constant__ DirectConvolution s,
                         const float* x, const float* dy, float* dw,
                         bool accumulate) {
  const uint64_t i = blockIdx.x;
  const auto inner = s.channels / s.groups;
  const auto u = static_cast<uint32_t>(i % s.units);
  const auto c = static_cast<uint32_t>(i / s.units % inner)
                 + u / (s.units / s.groups) * inner;
  const auto q = static_cast<uint32_t>(i / s.units / inner % s.kernel);
  const auto p = static_cast<uint32_t>(i / s.units / inner / s.kernel);
  const auto places = uint64_t{s.rows} * s.high * s.wide;
  float sum = 0;
  for (uint64_t at = threadIdx.x; at < places; at += blockDim.x) {
    const auto v = static_cast<uint32_t>(at % s.wide) * s.stride + q;
    const auto h = static_cast<uint32_t>(at / s.wide % s.high) * s.stride + p;
    const auto row = at / s.wide / s.high;
    if (h < s.padding || h >= s.height + s.padding || v < s.padding
        || v >= s.width + s.padding)
      continue;
    sum += dy[at * s.units + u]
           * x[((row * s.height + h - s.padding) * s.width + v - s.padding)
                 * s.channels
               + c];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0)
    dw[i] = accumulate ? dw[i] + sum : sum;
}

template <class T>
struct ToDnn {
  const float* w;
  T* to;
  uint64_t inner;
  uint32_t units;

  __device__ void operator()(uint64_t i) const {
    to[i] = rounded<T>(w[i % inner * units + i / inner]);
  }
};

template <class T>
struct FromDnn {
  const T* from;
  float* w;
  uint64_t inner;
  uint32_t units;
  bool accumulate;

  __device__ void operator()(uint64_t i) const {
    const auto x = value_of(from[i % units * inner + i / units]);
    w[i] = accumulate ? w[i] + x : x;
  }
};

struct Widen {
  const bfloat16* in;
  float* out;

  __device__ void operator()(uint64_t i) const { out[i] = value_of(in[i]); }
};

} // namespace

void direct_forward(const DirectConvolution& shape, const float* x,
                    const float* w, float* y, cudaStream_t stream) {
  launch_each(uint64_t{shape.rows} * shape.high * shape.wide * shape.units,
              Forward{shape, x, w, y}, stream);
}

void direct_input_gradient(const DirectConvolution& shape, const float* dy,
                           const float* w, float* dx, cudaStream_t stream) {
  launch_each(uint64_t{shape.rows} * shape.height * shape.width
                * shape.channels,
              InputGradient{shape, dy, w, dx}, stream);
}

void direct_weight_gradient(const DirectConvolution& shape, const float* x,
                            const float* dy, float* dw, bool accumulate,
                            cudaStream_t stream) {
  const auto weights = uint64_t{shape.kernel} * shape.kernel
                       * (shape.channels / shape.groups) * shape.units;
  weight_gradient_kernel<<<static_cast<uint32_t>(weights), flat_threads, 0,
                           stream>>>(shape, x, dy, dw, accumulate);
}

void weights_to_dnn(const float* w, void* to, uint64_t inner, uint32_t units,
                    bool half, cudaStream_t stream) {
  if (half)
    launch_each(inner * units,
                ToDnn<bfloat16>{w, static_cast<bfloat16*>(to), inner, units},
                stream);
  else
    launch_each(inner * units,
                ToDnn<float>{w, static_cast<float*>(to), inner, units}, stream);
}

void weights_from_dnn(const void* from, float* w, uint64_t inner,
                      uint32_t units, bool half, bool accumulate,
                      cudaStream_t stream) {
  if (half)
    launch_each(inner * units,
                FromDnn<bfloat16>{static_cast<const bfloat16*>(from), w, inner,
                                  units, accumulate},
                stream);
  else
    launch_each(inner * units,
                FromDnn<float>{static_cast<const float*>(from), w, inner, units,
                               accumulate},
                stream);
}

void widen(const void* in, float* out, uint64_t count, cudaStream_t stream) {
  launch_each(count, Widen{static_cast<const bfloat16*>(in), out}, stream);
}

} // namespace troupe::kernels::cuda
