#include "kernels/base/require.hpp"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/pack.cuh"

#include <algorithm>
#include <bit>

namespace troupe::kernels::cuda {

namespace {

// A block takes blockDim.x packs of N columns of a chunk of rows; thread (x,
// lane) the rows lane, lane + lanes, … of pack x. The lanes' sums are added
// from the first to the last.
template <class D, class Out, Activation Kind, uint32_t N>
__global__ void __launch_bounds__(N == 1 ? 1024 : flat_threads)
  delta_kernel(const __grid_constant__ DeltaArgs args, uint64_t chunk_rows,
               float* sums, bool accumulate) {
  constexpr uint32_t batch = N == 1 ? 8 : 1; // rows whose loads do not wait
  __shared__ __align__(16) float partial[N == 1 ? 1024 : flat_threads * N];
  const auto* d = static_cast<const D*>(args.d);
  const auto* at = static_cast<const D*>(args.at);
  auto* out = static_cast<Out*>(args.out);
  const auto column = (blockIdx.x * blockDim.x + threadIdx.x) * N;
  const auto begin = blockIdx.y * chunk_rows;
  const auto end = begin + chunk_rows < args.rows ? begin + chunk_rows
                                                  : args.rows;
  Values<N> sum{};
  if (column < args.columns)
    for (auto first = begin + threadIdx.y; first < end;
         first += batch * blockDim.y) {
      Values<N> x[batch];
      Values<N> z[batch];
#pragma unroll
      for (uint32_t b = 0; b < batch; ++b) {
        const auto row = first + b * blockDim.y;
        if (row >= end)
          continue;
        x[b] = load<N>(d + row * args.columns + column);
        if constexpr (Kind != Activation::none)
          z[b] = load<N>(at + row * args.columns + column);
      }
#pragma unroll
      for (uint32_t b = 0; b < batch; ++b) {
        const auto row = first + b * blockDim.y;
        if (row >= end)
          continue;
#pragma unroll
        for (uint32_t k = 0; k < N; ++k) {
          if constexpr (Kind != Activation::none)
            x[b][k] = activate_back(Kind, z[b][k], x[b][k]);
          sum[k] += x[b][k];
        }
        if (out != nullptr)
          store(x[b], out + row * args.columns + column);
      }
    }
  if (sums == nullptr)
    return;
  const auto thread = threadIdx.y * blockDim.x + threadIdx.x;
  store(sum, partial + thread * N);
  __syncthreads();
  const auto beside = blockDim.x * N; // no more than threads
  const auto summed = blockIdx.x * beside + thread;
  if (thread >= beside || summed >= args.columns)
    return;
  auto total = partial[thread];
  for (uint32_t lane = 1; lane < blockDim.y; ++lane)
    total += partial[lane * beside + thread];
  auto& to = sums[uint64_t{blockIdx.y} * args.columns + summed];
  to = accumulate ? to + total : total;
}

struct AddChunks {
  const float* chunk_sums; ///< [chunks, targets, columns]
  uint32_t chunks;
  uint32_t columns;
  uint32_t targets;
  ColumnSums to[2]; ///< may be the same place: one after the other
};

// A block takes 32 columns; thread (x, lane) the chunks lane, lane + 32, …
__global__ void __launch_bounds__(warp* warp)
  add_chunks_kernel(const __grid_constant__ AddChunks args) {
  __shared__ float partial[2][warp][warp];
  const auto column = blockIdx.x * warp + threadIdx.x;
  for (uint32_t t = 0; t < args.targets; ++t) {
    float sum = 0;
    if (column < args.columns)
      for (auto c = threadIdx.y; c < args.chunks; c += warp)
        sum += args.chunk_sums[(uint64_t{c} * args.targets + t) * args.columns
                               + column];
    partial[t][threadIdx.y][threadIdx.x] = sum;
  }
  __syncthreads();
  if (threadIdx.y != 0 || column >= args.columns)
    return;
  for (uint32_t t = 0; t < args.targets; ++t) {
    const auto to = args.to[t];
    if (to.sums == nullptr)
      continue;
    auto sum = partial[t][0][threadIdx.x];
    for (uint32_t lane = 1; lane < warp; ++lane)
      sum += partial[t][lane][threadIdx.x];
    to.sums[column] = to.accumulate ? to.sums[column] + sum : sum;
  }
}

template <uint32_t N>
struct Round {
  const float* in;
  bfloat16* out;

  __device__ void operator()(uint64_t i) const {
    store(load<N>(in + i * N), out + i * N);
  }
};

template <class T, Activation Kind, uint32_t N>
struct BiasActivation {
  const T* z;
  const T* bias;
  T* y;
  uint32_t packs; ///< of a row

  __device__ void operator()(uint64_t i) const {
    auto x = load<N>(z + i * N);
    if (bias != nullptr) {
      const auto added = load<N>(bias + i % packs * N);
#pragma unroll
      for (uint32_t k = 0; k < N; ++k)
        x[k] += added[k];
    }
#pragma unroll
    for (uint32_t k = 0; k < N; ++k)
      x[k] = activate(Kind, x[k]);
    store(x, y + i * N);
  }
};

/// Calls f<Kind>() with the kind as a constant.
template <class F>
void with_activation(Activation kind, const F& f) {
  switch (kind) {
    case Activation::none:
      return f.template operator()<Activation::none>();
    case Activation::relu:
      return f.template operator()<Activation::relu>();
    case Activation::gelu:
      return f.template operator()<Activation::gelu>();
    case Activation::silu:
      return f.template operator()<Activation::silu>();
    case Activation::tanh:
      return f.template operator()<Activation::tanh>();
    case Activation::sigmoid:
      return f.template operator()<Activation::sigmoid>();
    case Activation::gelu_tanh:
      return f.template operator()<Activation::gelu_tanh>();
  }
}

template <class D, class Out>
void launch_delta(const DeltaArgs& args, uint32_t chunks, float* sums,
                  bool accumulate, cudaStream_t stream) {
  const auto chunk_rows = over(args.rows, chunks);
  auto launch = [&]<Activation Kind, uint32_t N>(uint32_t width,
                                                 uint32_t lanes) {
    const dim3 grid(static_cast<uint32_t>(over(args.columns, width * N)),
                    chunks);
    delta_kernel<D, Out, Kind, N><<<grid, dim3(width, lanes), 0, stream>>>(
      args, chunk_rows, sums, accumulate);
  };
  with_activation(args.activation, [&]<Activation Kind>() {
    if (chunks > 1 && args.columns % 8 == 0) {
      const auto width = std::min(warp, std::bit_ceil(args.columns / 8));
      launch.template operator()<Kind, 8>(width, flat_threads / width);
    } else {
      const auto lanes = std::bit_ceil(std::min<uint64_t>(chunk_rows, warp));
      launch.template operator()<Kind, 1>(warp, static_cast<uint32_t>(lanes));
    }
  });
}

} // namespace

void delta_and_sums(const DeltaArgs& args, bool half_d, bool half_out,
                    cudaStream_t stream) {
  const auto chunks = row_chunks(args.rows);
  const bool direct = chunks == 1;
  auto* sums = args.sums == nullptr ? nullptr
               : direct             ? args.sums
                                    : args.scratch;
  const bool added = direct && args.accumulate;
  if (half_d && half_out)
    launch_delta<bfloat16, bfloat16>(args, chunks, sums, added, stream);
  else if (half_out)
    launch_delta<float, bfloat16>(args, chunks, sums, added, stream);
  else
    launch_delta<float, float>(args, chunks, sums, added, stream);
  if (sums != nullptr && !direct)
    add_chunks(args.scratch, chunks, args.columns,
               {{args.sums, args.accumulate}}, stream);
}

void add_chunks(const float* chunk_sums, uint32_t chunks, uint32_t columns,
                std::initializer_list<ColumnSums> to, cudaStream_t stream) {
  require(to.size() <= 2, "chunks of more than two sums of columns");
  AddChunks args{
    chunk_sums, chunks, columns, static_cast<uint32_t>(to.size()), {}};
  std::copy(to.begin(), to.end(), args.to);
  add_chunks_kernel<<<static_cast<uint32_t>(over(columns, warp)),
                      dim3(warp, warp), 0, stream>>>(args);
}

void round_to_half(const float* in, void* out, uint64_t count,
                   cudaStream_t stream) {
  const auto aligned = reinterpret_cast<uintptr_t>(in) % 16 == 0
                       && reinterpret_cast<uintptr_t>(out) % 8 == 0;
  auto* to = static_cast<bfloat16*>(out);
  if (count % 4 == 0 && aligned)
    launch_each(count / 4, Round<4>{in, to}, stream);
  else
    launch_each(count, Round<1>{in, to}, stream);
}

void bias_activation(Activation activation, const void* z, const void* bias,
                     void* y, uint64_t rows, uint32_t columns, bool half,
                     cudaStream_t stream) {
  auto run = [&]<class T>(T* to) {
    with_activation(activation, [&]<Activation Kind>() {
      with_pack(columns, [&]<uint32_t N>() {
        launch_each(rows * columns / N,
                    BiasActivation<T, Kind, N>{static_cast<const T*>(z),
                                               static_cast<const T*>(bias), to,
                                               columns / N},
                    stream);
      });
    });
  };
  if (half)
    run(static_cast<bfloat16*>(y));
  else
    run(static_cast<float*>(y));
}

} // namespace troupe::kernels::cuda
