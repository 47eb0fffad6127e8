#include "kernels/base/require.hpp"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/operators.cuh"

#include <vector>

namespace troupe::kernels {

namespace {

using namespace cuda;

constexpr uint32_t lanes = 8;

struct ChannelArgs {
  const float* x;
  const float* d; ///< null: sums of x and x^2; else of d and d x'
  const float* mean;
  const float* inverse;
  const float* scale;
  const float* shift;
  Activation activation;
  double* sums; ///< [chunks, 2, channels]
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

// A block takes 32 channels of a chunk of rows, as delta_kernel of columns.cu.
__global__ void __launch_bounds__(warp* lanes)
  channel_sums_kernel(const __grid_constant__ ChannelArgs args) {
  __shared__ double2 partial[lanes][warp];
  const auto c = blockIdx.x * warp + threadIdx.x;
  const auto begin = blockIdx.y * args.chunk_rows;
  const auto limit = begin + args.chunk_rows;
  const auto end = limit < args.rows ? limit : args.rows;
  double2 sum = {0, 0};
  if (c < args.channels)
    for (auto row = begin + threadIdx.y; row < end; row += lanes) {
      const auto i = row * args.channels + c;
      const double x = args.x[i];
      if (args.d == nullptr) {
        sum.x += x;
        sum.y += x * x;
        continue;
      }
      const auto z = args.normal(args.x[i], c);
      const double d = args.slope(args.d[i], z, c);
      sum.x += d;
      sum.y += d * static_cast<double>(z);
    }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= args.channels)
    return;
  for (uint32_t lane = 1; lane < lanes; ++lane) {
    sum.x += partial[lane][threadIdx.x].x;
    sum.y += partial[lane][threadIdx.x].y;
  }
  auto* to = args.sums + uint64_t{blockIdx.y} * 2 * args.channels;
  to[c] = sum.x;
  to[args.channels + c] = sum.y;
}

struct AddChannelChunks {
  const double* chunk_sums;
  double* sums;
  uint32_t chunks;
  uint32_t columns;

  __device__ void operator()(uint64_t i) const {
    double sum = 0;
    for (uint32_t c = 0; c < chunks; ++c)
      sum += chunk_sums[uint64_t{c} * columns + i];
    sums[i] = sum;
  }
};

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

struct Normalise {
  ChannelArgs args;
  float* y;

  __device__ void operator()(uint64_t i) const {
    const auto c = static_cast<uint32_t>(i % args.channels);
    const auto z = args.normal(args.x[i], c) * args.scale[c] + args.shift[c];
    y[i] = activate(args.activation, z);
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

struct NormaliseBack {
  ChannelArgs args;
  const double* sums;
  double count;
  float* gradient;
  bool accumulate;

  __device__ void operator()(uint64_t i) const {
    const auto c = static_cast<uint32_t>(i % args.channels);
    const auto z = args.normal(args.x[i], c);
    const auto d = args.slope(args.d[i], z, c);
    const auto mean = static_cast<float>(sums[c] / count);
    const auto product = static_cast<float>(sums[args.channels + c] / count);
    const auto g = args.scale[c] * args.inverse[c] * (d - mean - z * product);
    gradient[i] = accumulate ? gradient[i] + g : g;
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
      add_up(channels, args);
      const auto rows = exchanged(args);
      launch_each(channels_,
                  TakeStatistics{sums(args), args.saved, args.parameters[3],
                                 static_cast<double>(rows * places_),
                                 static_cast<double>(args.rows),
                                 variance_share(args, rows, places_),
                                 attributes_.epsilon, channels.channels},
                  stream());
    } else {
      launch_each(channels_,
                  TakeRunning{args.parameters[2], args.parameters[3],
                              args.saved, attributes_.epsilon,
                              channels.channels},
                  stream());
    }
    launched();
    launch_each(args.rows * places_ * channels_,
                Normalise{channels, args.output}, stream());
    launched();
  }

  void backward(const OpArgs& args) override {
    auto channels = arguments(args);
    channels.d = args.output_gradient;
    add_up(channels, args);
    GiveChannelGradients give{};
    give.sums = sums(args);
    give.kept = args.saved;
    for (size_t i = 0; i < 4; ++i)
      give.gradient[i] = args.parameter_gradients[i];
    for (size_t i = 0; i < 2; ++i)
      give.add[i] = args.accumulate_parameters[i] != 0;
    give.channels = channels.channels;
    // Of these rows alone: the step adds the replicas' up.
    launch_each(channels_, give, stream());
    launched();
    if (args.input_gradients[0] == nullptr)
      return;
    const auto rows = exchanged(args);
    launch_each(
      args.rows * places_ * channels_,
      NormaliseBack{channels, sums(args), static_cast<double>(rows * places_),
                    args.input_gradients[0], args.accumulate_inputs[0] != 0},
      stream());
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

  void add_up(ChannelArgs& channels, const OpArgs& args) {
    const auto chunks = row_chunks(channels.rows);
    channels.sums = sums(args) + 2 * channels_;
    channels.chunk_rows = over(channels.rows, chunks);
    const dim3 grid(static_cast<uint32_t>(over(channels_, warp)), chunks);
    channel_sums_kernel<<<grid, dim3(warp, lanes), 0, stream()>>>(channels);
    launched();
    launch_each(2 * channels_,
                AddChannelChunks{channels.sums, sums(args), chunks,
                                 2 * channels.channels},
                stream());
    launched();
  }

  /// Returns the rows that the sums stand for, after the exchange if there is
  /// one.
  uint64_t exchanged(const OpArgs& args) {
    if (!attributes_.cross_replica || args.exchange == nullptr)
      return args.rows;
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
