#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/operators.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/rows.cuh"

namespace troupe::kernels {

namespace {

using namespace cuda;

/// With x' = (x - mean) / deviation of a row, of which rms norm has no mean:
///
///   y = scale x' + shift
///   gradient = (g - mean(g) - x' mean(g x')) / deviation, g = scale d
///   d scale = sum over rows of d x',  d shift = sum over rows of d
struct NormArgs {
  const float* x;     ///< [rows, columns]
  const float* scale; ///< [columns]
  const float* shift; ///< [columns]; null: none
  void* y;            ///< [rows, columns]
  float2* moments;    ///< [rows]: mean and 1 / deviation
  const void* d;      ///< [rows, columns], of y; backward pass
  float* gradient;    ///< [rows, columns], of x
  float* sums;        ///< [chunks, 2, columns]: of d x', of d
  uint64_t rows;
  uint64_t chunk_rows;
  uint32_t columns;
  float epsilon;
  bool centred;
  bool accumulate;
};

// A thread's packs of N columns of a row: held in registers, Steps of them at
// most, or with 0 steps read again and again.
template <uint32_t N, uint32_t Steps, class F>
__device__ void row_packs(uint32_t columns, const F& f) {
  if constexpr (Steps == 0) {
    for (auto c = threadIdx.x * N; c < columns; c += blockDim.x * N)
      f(0, c);
  } else {
#pragma unroll
    for (uint32_t s = 0; s < Steps; ++s) {
      const auto c = (s * blockDim.x + threadIdx.x) * N;
      if (c < columns)
        f(s, c);
    }
  }
}

/// Calls f<N, Steps>() with what rows of so many columns take.
template <class F>
void with_steps(uint64_t columns, const F& f) {
  const auto steps = over(columns, row_threads(columns) * 4);
  if (columns % 4 != 0)
    f.template operator()<1, 0>();
  else if (steps == 1)
    f.template operator()<4, 1>();
  else if (steps == 2)
    f.template operator()<4, 2>();
  else if (steps <= 4)
    f.template operator()<4, 4>();
  else if (steps <= 6)
    f.template operator()<4, 6>();
  else if (steps <= 8)
    f.template operator()<4, 8>();
  else
    f.template operator()<4, 0>();
}

template <class Out, uint32_t N, uint32_t Steps>
__global__ void __launch_bounds__(flat_threads)
  norm_kernel(const __grid_constant__ NormArgs args) {
  const auto row = row_of();
  if (row >= args.rows)
    return;
  const auto* x = args.x + row * args.columns;
  auto* y = static_cast<Out*>(args.y) + row * args.columns;
  const auto count = static_cast<float>(args.columns);
  [[maybe_unused]] Values<N> held[Steps == 0 ? 1 : Steps];
  if constexpr (Steps > 0)
    row_packs<N, Steps>(args.columns, [&](uint32_t s, uint32_t c) {
      held[s] = load<N>(x + c);
    });
  const auto packs = [&](const auto& f) {
    row_packs<N, Steps>(args.columns, [&](uint32_t s, uint32_t c) {
      if constexpr (Steps > 0)
        f(held[s], c);
      else
        f(load<N>(x + c), c);
    });
  };
  float mean = 0;
  if (args.centred) {
    packs([&](const Values<N>& v, uint32_t) {
#pragma unroll
      for (uint32_t k = 0; k < N; ++k)
        mean += v[k];
    });
    mean = row_sum(mean) / count;
  }
  float squares = 0;
  packs([&](const Values<N>& v, uint32_t) {
#pragma unroll
    for (uint32_t k = 0; k < N; ++k)
      squares += (v[k] - mean) * (v[k] - mean);
  });
  const auto variance = row_sum(squares) / count;
  const auto inverse = 1.0f / sqrtf(variance + args.epsilon);
  packs([&](Values<N> v, uint32_t c) {
    const auto scale = load<N>(args.scale + c);
    Values<N> shift{};
    if (args.shift != nullptr)
      shift = load<N>(args.shift + c);
#pragma unroll
    for (uint32_t k = 0; k < N; ++k)
      v[k] = (v[k] - mean) * inverse * scale[k] + shift[k];
    store(v, y + c);
  });
  if (threadIdx.x == 0)
    args.moments[row] = {mean, inverse};
}

constexpr uint32_t held_columns = 1024; ///< of rows that a warp has

// The gradient and a chunk's sums in one pass: a warp, or the block, has a row
// in registers, and the sums of its columns over the chunk's rows.
template <class D, uint32_t N, uint32_t Steps>
__global__ void __launch_bounds__(flat_threads, Steps <= 6 ? 2 : 1)
  norm_back_kernel(const __grid_constant__ NormArgs args) {
  __shared__ __align__(16) float shared_sums[2][held_columns];
  const auto begin = blockIdx.x * args.chunk_rows;
  const auto limit = begin + args.chunk_rows;
  const auto end = limit < args.rows ? limit : args.rows;
  const auto count = static_cast<float>(args.columns);
  Values<N> sums[2][Steps] = {};
  for (auto row = begin + threadIdx.y; row < end; row += blockDim.y) {
    const auto* from = args.x + row * args.columns;
    const auto* back = static_cast<const D*>(args.d) + row * args.columns;
    const auto [mean, inverse] = args.moments[row];
    Values<N> x[Steps];
    Values<N> d[Steps];
    row_packs<N, Steps>(args.columns, [&](uint32_t s, uint32_t c) {
      x[s] = load<N>(from + c);
      d[s] = load<N>(back + c);
    });
    float sum = 0;
    float products = 0;
    row_packs<N, Steps>(args.columns, [&](uint32_t s, uint32_t c) {
      const auto scale = load<N>(args.scale + c);
#pragma unroll
      for (uint32_t k = 0; k < N; ++k) {
        x[s][k] = (x[s][k] - mean) * inverse;
        sums[0][s][k] += d[s][k] * x[s][k];
        sums[1][s][k] += d[s][k];
        d[s][k] *= scale[k];
        sum += d[s][k];
        products += d[s][k] * x[s][k];
      }
    });
    if (args.gradient == nullptr)
      continue;
    const auto mean_g = args.centred ? row_sum(sum) / count : 0.0f;
    const auto mean_product = row_sum(products) / count;
    auto* to = args.gradient + row * args.columns;
    row_packs<N, Steps>(args.columns, [&](uint32_t s, uint32_t c) {
#pragma unroll
      for (uint32_t k = 0; k < N; ++k)
        d[s][k] = inverse * (d[s][k] - mean_g - x[s][k] * mean_product);
      if (args.accumulate)
        x[s] = load<N>(to + c); // all before the first store, not to wait
    });
    row_packs<N, Steps>(args.columns, [&](uint32_t s, uint32_t c) {
#pragma unroll
      for (uint32_t k = 0; k < N; ++k)
        d[s][k] = args.accumulate ? x[s][k] + d[s][k] : d[s][k];
      store(d[s], to + c);
    });
  }
  auto* to = args.sums + uint64_t{blockIdx.x} * 2 * args.columns;
  for (uint32_t y = 0; y < blockDim.y; ++y) { // one warp after the other
    if (threadIdx.y == y)
      row_packs<N, Steps>(args.columns, [&](uint32_t s, uint32_t c) {
        for (uint32_t t = 0; t < 2; ++t) {
          auto sum = sums[t][s];
          if (y > 0) {
            const auto before = load<N>(&shared_sums[t][c]);
#pragma unroll
            for (uint32_t k = 0; k < N; ++k)
              sum[k] = before[k] + sum[k];
          }
          store(sum, y + 1 < blockDim.y ? &shared_sums[t][c]
                                        : to + t * args.columns + c);
        }
      });
    __syncthreads();
  }
}

// The gradient of rows that fit in no registers.
template <class D>
__global__ void norm_gradient_kernel(const __grid_constant__ NormArgs args) {
  const auto row = row_of();
  if (row >= args.rows)
    return;
  const auto* x = args.x + row * args.columns;
  const auto* d = static_cast<const D*>(args.d) + row * args.columns;
  auto* to = args.gradient + row * args.columns;
  const auto [mean, inverse] = args.moments[row];
  float sum = 0;
  float products = 0;
  for (auto c = threadIdx.x; c < args.columns; c += blockDim.x) {
    const auto g = value_of(d[c]) * args.scale[c];
    sum += g;
    products += g * ((x[c] - mean) * inverse);
  }
  const auto count = static_cast<float>(args.columns);
  const auto mean_g = args.centred ? row_sum(sum) / count : 0.0f;
  const auto mean_product = row_sum(products) / count;
  for (auto c = threadIdx.x; c < args.columns; c += blockDim.x) {
    const auto g = value_of(d[c]) * args.scale[c];
    const auto z = inverse
                   * (g - mean_g - (x[c] - mean) * inverse * mean_product);
    to[c] = args.accumulate ? to[c] + z : z;
  }
}

constexpr uint32_t lanes = 8;

// And the sums: a block takes 32 columns of a chunk of rows, its lanes a row
// each in turn.
template <class D>
__global__ void __launch_bounds__(warp* lanes)
  norm_sums_kernel(const __grid_constant__ NormArgs args) {
  __shared__ float2 partial[lanes][warp];
  const auto column = blockIdx.y * warp + threadIdx.x;
  const auto begin = blockIdx.x * args.chunk_rows;
  const auto limit = begin + args.chunk_rows;
  const auto end = limit < args.rows ? limit : args.rows;
  float2 sum = {0, 0};
  if (column < args.columns)
    for (auto row = begin + threadIdx.y; row < end; row += lanes) {
      const auto i = row * args.columns + column;
      const auto moments = args.moments[row];
      const auto d = value_of(static_cast<const D*>(args.d)[i]);
      sum.x += d * ((args.x[i] - moments.x) * moments.y);
      sum.y += d;
    }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= args.columns)
    return;
  for (uint32_t lane = 1; lane < lanes; ++lane) {
    sum.x += partial[lane][threadIdx.x].x;
    sum.y += partial[lane][threadIdx.x].y;
  }
  auto* to = args.sums + uint64_t{blockIdx.x} * 2 * args.columns;
  to[column] = sum.x;
  to[args.columns + column] = sum.y;
}

/// Blocks of rows that are summed before their sums are: a row for each of a
/// block's warps at least.
uint32_t norm_chunks(uint64_t rows) {
  const auto wanted = over(rows, lanes);
  return static_cast<uint32_t>(wanted < 256 ? wanted : 256);
}

/// Layer norm and rms norm.
class Norm final : public CudaOperator {
public:
  explicit Norm(const CudaOpSite& site)
    : CudaOperator(site),
      centred_(site.op().kind == OpKind::layer_norm),
      has_shift_(site.op().parameters.size() > 1),
      half_(site.half_output()),
      epsilon_(site.op().attributes.epsilon),
      columns_(site.input(0).back()),
      repeats_(elements(site.input(0)) / columns_),
      max_rows_(site.max_rows * repeats_) {}

  Needs needs() const override {
    Needs needs;
    needs.saved = {2 * repeats_, 0};
    needs.scratch = {0, norm_chunks(max_rows_) * 2 * columns_};
    needs.backward_reads_inputs = 1;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    auto norm = arguments(args);
    norm.y = args.output;
    const auto grid = row_grid(norm.rows, columns_);
    const auto block = row_block(columns_);
    with_steps(columns_, [&]<uint32_t N, uint32_t Steps>() {
      if (half_)
        norm_kernel<bfloat16, N, Steps><<<grid, block, 0, stream()>>>(norm);
      else
        norm_kernel<float, N, Steps><<<grid, block, 0, stream()>>>(norm);
    });
    launched();
  }

  void backward(const OpArgs& args) override {
    auto norm = arguments(args);
    norm.d = args.output_gradient;
    norm.gradient = args.input_gradients[0];
    norm.accumulate = args.accumulate_inputs[0] != 0;
    norm.sums = args.scratch;
    const auto chunks = norm_chunks(norm.rows);
    norm.chunk_rows = over(norm.rows, chunks);
    if (half_)
      run_back<bfloat16>(norm, chunks);
    else
      run_back<float>(norm, chunks);
    launched();
    ColumnSums shift{};
    if (has_shift_)
      shift = {args.parameter_gradients[1], args.accumulate_parameters[1] != 0};
    add_chunks(
      norm.sums, chunks, norm.columns,
      {{args.parameter_gradients[0], args.accumulate_parameters[0] != 0},
       shift},
      stream());
    launched();
  }

private:
  NormArgs arguments(const OpArgs& args) const {
    NormArgs norm{};
    norm.x = args.inputs[0];
    norm.scale = args.parameters[0];
    norm.shift = has_shift_ ? args.parameters[1] : nullptr;
    norm.moments = reinterpret_cast<float2*>(args.saved);
    norm.rows = args.rows * repeats_;
    norm.columns = static_cast<uint32_t>(columns_);
    norm.epsilon = epsilon_;
    norm.centred = centred_;
    return norm;
  }

  template <class D>
  void run_back(const NormArgs& norm, uint32_t chunks) {
    with_steps(columns_, [&]<uint32_t N, uint32_t Steps>() {
      if constexpr (Steps > 0) {
        const auto threads = row_threads(columns_);
        const dim3 block(threads, flat_threads / threads);
        norm_back_kernel<D, N, Steps><<<chunks, block, 0, stream()>>>(norm);
        return;
      }
      const dim3 sums(chunks, static_cast<uint32_t>(over(columns_, warp)));
      norm_sums_kernel<D><<<sums, dim3(warp, lanes), 0, stream()>>>(norm);
      if (norm.gradient != nullptr)
        norm_gradient_kernel<D>
          <<<row_grid(norm.rows, columns_), row_block(columns_), 0, stream()>>>(
            norm);
    });
  }

  bool centred_;
  bool has_shift_;
  bool half_; ///< output and its gradient
  float epsilon_;
  uint64_t columns_;
  uint64_t repeats_; ///< vectors of a sample
  uint64_t max_rows_;
};

} // namespace

OperatorPtr make_cuda_layer_norm(const CudaOpSite& site) {
  return std::make_unique<Norm>(site);
}

} // namespace troupe::kernels
