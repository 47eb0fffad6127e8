#include "kernels/base/require.hpp"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/operators.cuh"
#include "kernels/cuda/pack.cuh"

#include <algorithm>
#include <bit>
#include <vector>

namespace troupe::kernels {

namespace {

using namespace cuda;

struct ChannelArgs {
  const float* x;
  const float* d; ///< null: sums of x and x^2; else of d and d x'
  const float* mean;
  const float* inverse;
  const float* scale;
  const float* shift;
  Activation activation;
  double2* sums; ///< [chunks, channels]
  uint64_t rows;
  uint64_t chunk_rows;
  uint32_t channels;

  __device__ float normal(float value, uint32_t c) const {
    return (value - mean[c]) * inverse[c];
  }
  /// The gradient before the activation, which is worked out again.
  __device__ float slope(float gradient, float z, uint32_t c) const {
    if (activation == Activation::none)
      return gradient;
    return z * scale[c] + shift[c] <= 0 ? 0.0f : gradient;
  }
};

// A block takes blockDim.x channels of a chunk of rows, as delta_kernel of
// columns.cu.
__global__ void __launch_bounds__(flat_threads)
  channel_sums_kernel(const __grid_constant__ ChannelArgs args) {
  constexpr uint32_t batch = 4; // rows whose loads do not wait
  __shared__ double2 partial[flat_threads];
  const auto c = blockIdx.x * blockDim.x + threadIdx.x;
  const auto begin = blockIdx.y * args.chunk_rows;
  const auto limit = begin + args.chunk_rows;
  const auto end = limit < args.rows ? limit : args.rows;
  double2 sum = {0, 0};
  if (c < args.channels)
    for (auto first = begin + threadIdx.y; first < end;
         first += batch * blockDim.y) {
      float x[batch];
      float d[batch];
#pragma unroll
      for (uint32_t b = 0; b < batch; ++b) {
        const auto row = first + b * blockDim.y;
        if (row >= end)
          continue;
        x[b] = args.x[row * args.channels + c];
        if (args.d != nullptr)
          d[b] = args.d[row * args.channels + c];
      }
#pragma unroll
      for (uint32_t b = 0; b < batch; ++b) {
        if (first + b * blockDim.y >= end)
          continue;
        if (args.d == nullptr) {
          const double value = x[b];
          sum.x += value;
          sum.y += value * value;
          continue;
        }
        const auto z = args.normal(x[b], c);
        const double slope = args.slope(d[b], z, c);
        sum.x += slope;
        sum.y += slope * static_cast<double>(z);
      }
    }
  partial[threadIdx.y * blockDim.x + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= args.channels)
    return;
  for (uint32_t lane = 1; lane < blockDim.y; ++lane) {
    sum.x += partial[lane * blockDim.x + threadIdx.x].x;
    sum.y += partial[lane * blockDim.x + threadIdx.x].y;
  }
  args.sums[uint64_t{blockIdx.y} * args.channels + c] = sum;
}

// A block takes 32 channels; thread (x, lane) the chunks lane, lane + 32, …, as
// add_chunks_kernel of columns.cu. Then calls then(c) for each channel, which
// reads that channel's sums.
template <class F>
__global__ void __launch_bounds__(warp* warp)
  add_channel_chunks_kernel(const double2* chunk_sums, double* sums,
                            uint32_t chunks, uint32_t channels,
                            const __grid_constant__ F then) {
  __shared__ double2 partial[warp][warp];
  const auto c = blockIdx.x * warp + threadIdx.x;
  double2 sum = {0, 0};
  if (c < channels)
    for (auto chunk = threadIdx.y; chunk < chunks; chunk += warp) {
      const auto more = chunk_sums[uint64_t{chunk} * channels + c];
      sum.x += more.x;
      sum.y += more.y;
    }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= channels)
    return;
  for (uint32_t lane = 1; lane < warp; ++lane) {
    sum.x += partial[lane][threadIdx.x].x;
    sum.y += partial[lane][threadIdx.x].y;
  }
  sums[c] = sum.x;
  sums[channels + c] = sum.y;
  then(c);
}

/// Mean and variance of the sums, kept, and what the running ones are to get.
struct TakeStatistics {
  const double* sums;
  float* kept;          ///< mean, inverse, two statistics: [4, channels]
  const float* running; ///< variance, which stays where there is no share
  double count;
  double rows;
  double share; ///< variance_share()
  double epsilon;
  uint32_t channels;

  __device__ void operator()(uint64_t c) const {
    const auto mean = sums[c] / count;
    const auto spread = sums[channels + c] / count - mean * mean;
    const auto variance = spread < 0 ? 0.0 : spread; // a NaN stays
    kept[c] = static_cast<float>(mean);
    kept[channels + c] = static_cast<float>(1.0 / sqrt(variance + epsilon));
    kept[2 * channels + c] = static_cast<float>(rows * mean);
    kept[3 * channels + c] =
      static_cast<float>(share > 0 ? count * variance * share
                                   : rows * static_cast<double>(running[c]));
  }
};

struct TakeRunning {
  const float* mean;
  const float* variance;
  float* kept;
  double epsilon;
  uint32_t channels;

  __device__ void operator()(uint64_t c) const {
    kept[c] = mean[c];
    kept[channels + c] = static_cast<float>(
      1.0 / sqrt(static_cast<double>(variance[c]) + epsilon));
  }
};

/// Of N channels beside each other.
template <uint32_t N>
struct Normalise {
  ChannelArgs args;
  float* y;

  __device__ void operator()(uint64_t i) const {
    const auto c = static_cast<uint32_t>(i % (args.channels / N)) * N;
    const auto mean = load<N>(args.mean + c);
    const auto inverse = load<N>(args.inverse + c);
    const auto scale = load<N>(args.scale + c);
    const auto shift = load<N>(args.shift + c);
    auto x = load<N>(args.x + i * N);
#pragma unroll
    for (uint32_t k = 0; k < N; ++k) {
      const auto z = (x[k] - mean[k]) * inverse[k] * scale[k] + shift[k];
      x[k] = activate(args.activation, z);
    }
    store(x, y + i * N);
  }
};

struct GiveChannelGradients {
  const double* sums;
  const float* kept;
  float* gradient[4];
  bool add[2];
  uint32_t channels;

  __device__ void operator()(uint64_t c) const {
    const auto scale = static_cast<float>(sums[channels + c]);
    const auto shift = static_cast<float>(sums[c]);
    gradient[0][c] = add[0] ? gradient[0][c] + scale : scale;
    gradient[1][c] = add[1] ? gradient[1][c] + shift : shift;
    gradient[2][c] = kept[2 * channels + c];
    gradient[3][c] = kept[3 * channels + c];
  }
};

/// Of N channels beside each other.
template <uint32_t N>
struct NormaliseBack {
  ChannelArgs args;
  const double* sums;
  double share; ///< of a vector of channels among them all
  float* gradient;
  bool accumulate;

  __device__ void operator()(uint64_t i) const {
    const auto c = static_cast<uint32_t>(i % (args.channels / N)) * N;
    const auto x = load<N>(args.x + i * N);
    const auto d = load<N>(args.d + i * N);
    const auto mean = load<N>(args.mean + c);
    const auto inverse = load<N>(args.inverse + c);
    const auto scale = load<N>(args.scale + c);
    const auto shift = load<N>(args.shift + c);
    Values<N> g;
#pragma unroll
    for (uint32_t k = 0; k < N; ++k) {
      const auto z = (x[k] - mean[k]) * inverse[k];
      const bool gone = args.activation != Activation::none
                        && z * scale[k] + shift[k] <= 0;
      const auto slope = gone ? 0.0f : d[k];
      const auto average = static_cast<float>(sums[c + k] * share);
      const auto product =
        static_cast<float>(sums[args.channels + c + k] * share);
      g[k] = scale[k] * inverse[k] * (slope - average - z * product);
    }
    give(g, gradient + i * N, accumulate);
  }
};

/// Statistics come from sums of x and x^2 in double, as on the CPU; with an
/// exchange among replicas the stream is waited for in the middle of a pass.
class BatchNorm final : public CudaOperator {
public:
  explicit BatchNorm(const CudaOpSite& site)
    : CudaOperator(site),
      attributes_(site.op().attributes),
      channels_(site.input(0).back()),
      places_(elements(site.input(0)) / channels_),
      max_rows_(site.max_rows * places_) {
    require(attributes_.activation == Activation::none
              || attributes_.activation == Activation::relu,
            "build_graph() gives other activations an operator of their own");
  }

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 1;
    needs.saved = {0, 4 * channels_};
    // Doubles, of the sums and of those of the chunks.
    needs.scratch = {0, 4 * (channels_ + chunk_scratch(max_rows_, channels_))};
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    auto channels = arguments(args);
    if (args.training) {
      auto take = [&](uint64_t rows) {
        return TakeStatistics{sums(args),
                              args.saved,
                              args.parameters[3],
                              static_cast<double>(rows * places_),
                              static_cast<double>(args.rows),
                              variance_share(args, rows, places_),
                              attributes_.epsilon,
                              channels.channels};
      };
      add_up(channels, args, take(args.rows));
      if (exchanges(args))
        launch_each(channels_, take(exchanged(args)), stream());
    } else {
      launch_each(channels_,
                  TakeRunning{args.parameters[2], args.parameters[3],
                              args.saved, attributes_.epsilon,
                              channels.channels},
                  stream());
    }
    launched();
    with_pack(channels_, [&]<uint32_t N>() {
      launch_each(args.rows * places_ * channels_ / N,
                  Normalise<N>{channels, args.output}, stream());
    });
    launched();
  }

  void backward(const OpArgs& args) override {
    auto channels = arguments(args);
    channels.d = args.output_gradient;
    GiveChannelGradients give{};
    give.sums = sums(args);
    give.kept = args.saved;
    for (size_t i = 0; i < 4; ++i)
      give.gradient[i] = args.parameter_gradients[i];
    for (size_t i = 0; i < 2; ++i)
      give.add[i] = args.accumulate_parameters[i] != 0;
    give.channels = channels.channels;
    // Of these rows alone: the step adds the replicas' up.
    add_up(channels, args, give);
    if (args.input_gradients[0] == nullptr)
      return;
    const auto rows = exchanges(args) ? exchanged(args) : args.rows;
    with_pack(channels_, [&]<uint32_t N>() {
      launch_each(args.rows * places_ * channels_ / N,
                  NormaliseBack<N>{channels, sums(args),
                                   1 / static_cast<double>(rows * places_),
                                   args.input_gradients[0],
                                   args.accumulate_inputs[0] != 0},
                  stream());
    });
    launched();
  }

private:
  static double* sums(const OpArgs& args) {
    return reinterpret_cast<double*>(args.scratch);
  }

  ChannelArgs arguments(const OpArgs& args) const {
    ChannelArgs channels{};
    channels.x = args.inputs[0];
    channels.mean = args.saved;
    channels.inverse = args.saved + channels_;
    channels.scale = args.parameters[0];
    channels.shift = args.parameters[1];
    channels.activation = attributes_.activation;
    channels.rows = args.rows * places_;
    channels.channels = static_cast<uint32_t>(channels_);
    return channels;
  }

  /// Gives the sums of channels, then calls then(c) for each.
  template <class F>
  void add_up(ChannelArgs& channels, const OpArgs& args, const F& then) {
    const auto chunks = row_chunks(channels.rows);
    channels.sums = reinterpret_cast<double2*>(sums(args) + 2 * channels_);
    channels.chunk_rows = over(channels.rows, chunks);
    const auto width = std::min(warp, std::bit_ceil(channels.channels));
    const dim3 grid(static_cast<uint32_t>(over(channels_, width)), chunks);
    channel_sums_kernel<<<grid, dim3(width, flat_threads / width), 0,
                          stream()>>>(channels);
    launched();
    add_channel_chunks_kernel<<<static_cast<uint32_t>(over(channels_, warp)),
                                dim3(warp, warp), 0, stream()>>>(
      channels.sums, sums(args), chunks, channels.channels, then);
    launched();
  }

  bool exchanges(const OpArgs& args) const {
    return attributes_.cross_replica && args.exchange != nullptr;
  }

  /// Returns the rows that the sums stand for after the exchange.
  uint64_t exchanged(const OpArgs& args) {
    const auto place = context_.place(name_);
    host_sums_.resize(2 * channels_);
    const auto bytes = host_sums_.size() * sizeof(double);
    check(cudaMemcpyAsync(host_sums_.data(), sums(args), bytes,
                          cudaMemcpyDeviceToHost, stream()),
          place);
    context_.synchronize(name_);
    const auto rows = args.exchange->sum(host_sums_.data(), host_sums_.size(),
                                         args.rows);
    check(cudaMemcpyAsync(sums(args), host_sums_.data(), bytes,
                          cudaMemcpyHostToDevice, stream()),
          place);
    context_.synchronize(name_);
    return rows;
  }

  OpAttributes attributes_;
  uint64_t channels_;
  uint64_t places_; ///< vectors of channels in a sample
  uint64_t max_rows_;
  std::vector<double> host_sums_;
};

} // namespace

OperatorPtr make_cuda_batch_norm(const CudaOpSite& site) {
  return std::make_unique<BatchNorm>(site);
}

} // namespace troupe::kernels
