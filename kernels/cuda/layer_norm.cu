#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/operators.cuh"
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

template <class Out>
__global__ void norm_kernel(const __grid_constant__ NormArgs args) {
  const auto row = row_of();
  if (row >= args.rows)
    return;
  const auto* x = args.x + row * args.columns;
  auto* y = static_cast<Out*>(args.y) + row * args.columns;
  const auto count = static_cast<float>(args.columns);
  float mean = 0;
  if (args.centred) {
    for (auto c = threadIdx.x; c < args.columns; c += blockDim.x)
      mean += x[c];
    mean = row_sum(mean) / count;
  }
  float squares = 0;
  for (auto c = threadIdx.x; c < args.columns; c += blockDim.x) {
    const auto off = x[c] - mean;
    squares += off * off;
  }
  const auto variance = row_sum(squares) / count;
  const auto inverse = 1.0f / sqrtf(variance + args.epsilon);
  for (auto c = threadIdx.x; c < args.columns; c += blockDim.x) {
    auto z = (x[c] - mean) * inverse * args.scale[c];
    if (args.shift != nullptr)
      z += args.shift[c];
    y[c] = rounded<Out>(z);
  }
  if (threadIdx.x == 0)
    args.moments[row] = {mean, inverse};
}

template <class D>
__global__ void norm_back_kernel(const __grid_constant__ NormArgs args) {
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

// As delta_kernel of columns.cu: a block takes 32 columns of a chunk of rows.
template <class D>
__global__ void __launch_bounds__(warp* lanes)
  norm_sums_kernel(const __grid_constant__ NormArgs args) {
  __shared__ float2 partial[lanes][warp];
  const auto column = blockIdx.x * warp + threadIdx.x;
  const auto begin = blockIdx.y * args.chunk_rows;
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
  auto* to = args.sums + uint64_t{blockIdx.y} * 2 * args.columns;
  to[column] = sum.x;
  to[args.columns + column] = sum.y;
}

struct GiveSums {
  const float* sums; ///< [2, columns]
  float* scale;
  float* shift; ///< null: none
  uint32_t columns;
  bool add_scale;
  bool add_shift;

  __device__ void operator()(uint64_t c) const {
    scale[c] = add_scale ? scale[c] + sums[c] : sums[c];
    if (shift != nullptr)
      shift[c] = add_shift ? shift[c] + sums[columns + c] : sums[columns + c];
  }
};

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
    needs.scratch = {0, chunk_scratch(max_rows_, 2 * columns_) + 2 * columns_};
    needs.backward_reads_inputs = 1;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    auto norm = arguments(args);
    norm.y = args.output;
    const auto grid = row_grid(norm.rows, columns_);
    const auto block = row_block(columns_);
    if (half_)
      norm_kernel<bfloat16><<<grid, block, 0, stream()>>>(norm);
    else
      norm_kernel<float><<<grid, block, 0, stream()>>>(norm);
    launched();
  }

  void backward(const OpArgs& args) override {
    auto norm = arguments(args);
    norm.d = args.output_gradient;
    give_sums(args, norm);
    norm.gradient = args.input_gradients[0];
    if (norm.gradient == nullptr)
      return;
    norm.accumulate = args.accumulate_inputs[0] != 0;
    const auto grid = row_grid(norm.rows, columns_);
    const auto block = row_block(columns_);
    if (half_)
      norm_back_kernel<bfloat16><<<grid, block, 0, stream()>>>(norm);
    else
      norm_back_kernel<float><<<grid, block, 0, stream()>>>(norm);
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

  void give_sums(const OpArgs& args, NormArgs& norm) {
    const auto chunks = row_chunks(norm.rows);
    const auto columns = static_cast<uint32_t>(columns_);
    auto* sums = args.scratch; // then the chunks' sums
    norm.sums = chunks == 1 ? sums : sums + 2 * columns_;
    norm.chunk_rows = over(norm.rows, chunks);
    const dim3 grid(static_cast<uint32_t>(over(columns, warp)), chunks);
    const dim3 block(warp, lanes);
    if (half_)
      norm_sums_kernel<bfloat16><<<grid, block, 0, stream()>>>(norm);
    else
      norm_sums_kernel<float><<<grid, block, 0, stream()>>>(norm);
    launched();
    if (chunks > 1)
      add_chunks(norm.sums, chunks, 2 * columns, sums, false, stream());
    launch_each(columns,
                GiveSums{sums, args.parameter_gradients[0],
                         has_shift_ ? args.parameter_gradients[1] : nullptr,
                         columns, args.accumulate_parameters[0] != 0,
                         has_shift_ && args.accumulate_parameters[1] != 0},
                stream());
    launched();
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
