#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/kernel.cuh"

namespace troupe::kernels::cuda {

namespace {

constexpr uint32_t lanes = 8; ///< threads that share a column's rows

// A block takes 32 columns of a chunk of rows; thread (x, lane) the rows lane,
// lane + 8, … of column x. The 8 partial sums are added from the first to the
// last.
template <class D, class Out>
__global__ void __launch_bounds__(warp* lanes)
  delta_kernel(const DeltaArgs args, uint64_t chunk_rows, float* sums,
               bool accumulate) {
  __shared__ float partial[lanes][warp];
  const auto* d = static_cast<const D*>(args.d);
  const auto* at = static_cast<const D*>(args.at);
  auto* out = static_cast<Out*>(args.out);
  const auto column = blockIdx.x * warp + threadIdx.x;
  const auto begin = blockIdx.y * chunk_rows;
  const auto end = begin + chunk_rows < args.rows ? begin + chunk_rows
                                                  : args.rows;
  float sum = 0;
  if (column < args.columns)
    for (auto row = begin + threadIdx.y; row < end; row += lanes) {
      const auto i = row * args.columns + column;
      auto x = value_of(d[i]);
      if (at != nullptr)
        x = activate_back(args.activation, value_of(at[i]), x);
      if (out != nullptr)
        out[i] = rounded<Out>(x);
      sum += x;
    }
  if (sums == nullptr)
    return;
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= args.columns)
    return;
  for (uint32_t lane = 1; lane < lanes; ++lane)
    sum += partial[lane][threadIdx.x];
  auto& to = sums[uint64_t{blockIdx.y} * args.columns + column];
  to = accumulate ? to + sum : sum;
}

// A block takes 32 columns; thread (x, lane) the chunks lane, lane + 8, …
__global__ void __launch_bounds__(warp* lanes)
  add_chunks_kernel(const float* chunk_sums, uint32_t chunks, uint32_t columns,
                    float* sums, bool accumulate) {
  __shared__ float partial[lanes][warp];
  const auto column = blockIdx.x * warp + threadIdx.x;
  float sum = 0;
  if (column < columns)
    for (auto c = threadIdx.y; c < chunks; c += lanes)
      sum += chunk_sums[uint64_t{c} * columns + column];
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns)
    return;
  for (uint32_t lane = 1; lane < lanes; ++lane)
    sum += partial[lane][threadIdx.x];
  sums[column] = accumulate ? sums[column] + sum : sum;
}

struct Round {
  const float* in;
  bfloat16* out;

  __device__ void operator()(uint64_t i) const {
    out[i] = rounded<bfloat16>(in[i]);
  }
};

struct RoundPairs {
  const float4* in;
  uint2* out;

  __device__ void operator()(uint64_t i) const {
    const auto x = in[i];
    const auto low = __floats2bfloat162_rn(x.x, x.y);
    const auto high = __floats2bfloat162_rn(x.z, x.w);
    uint2 both;
    both.x = *reinterpret_cast<const uint32_t*>(&low);
    both.y = *reinterpret_cast<const uint32_t*>(&high);
    out[i] = both;
  }
};

template <class T>
struct BiasActivation {
  Activation activation;
  const T* z;
  const T* bias;
  T* y;
  uint32_t columns;

  __device__ void operator()(uint64_t i) const {
    auto x = value_of(z[i]);
    if (bias != nullptr)
      x += value_of(bias[i % columns]);
    y[i] = rounded<T>(activate(activation, x));
  }
};

template <class T>
void bias_activation_of(Activation activation, const void* z, const void* bias,
                        void* y, uint64_t rows, uint32_t columns,
                        cudaStream_t stream) {
  launch_each(rows * columns,
              BiasActivation<T>{activation, static_cast<const T*>(z),
                                static_cast<const T*>(bias), static_cast<T*>(y),
                                columns},
              stream);
}

} // namespace

void delta_and_sums(const DeltaArgs& args, bool half_d, bool half_out,
                    cudaStream_t stream) {
  const auto chunks = row_chunks(args.rows);
  const auto chunk_rows = over(args.rows, chunks);
  const dim3 grid(static_cast<uint32_t>(over(args.columns, warp)), chunks);
  const dim3 block(warp, lanes);
  const bool direct = chunks == 1;
  auto* sums = args.sums == nullptr ? nullptr
               : direct             ? args.sums
                                    : args.scratch;
  const bool added = direct && args.accumulate;
  if (half_d && half_out)
    delta_kernel<bfloat16, bfloat16>
      <<<grid, block, 0, stream>>>(args, chunk_rows, sums, added);
  else if (half_out)
    delta_kernel<float, bfloat16>
      <<<grid, block, 0, stream>>>(args, chunk_rows, sums, added);
  else
    delta_kernel<float, float>
      <<<grid, block, 0, stream>>>(args, chunk_rows, sums, added);
  if (sums != nullptr && !direct)
    add_chunks(args.scratch, chunks, args.columns, args.sums, args.accumulate,
               stream);
}

void add_chunks(const float* chunk_sums, uint32_t chunks, uint32_t columns,
                float* sums, bool accumulate, cudaStream_t stream) {
  add_chunks_kernel<<<static_cast<uint32_t>(over(columns, warp)),
                      dim3(warp, lanes), 0, stream>>>(
    chunk_sums, chunks, columns, sums, accumulate);
}

void round_to_half(const float* in, void* out, uint64_t count,
                   cudaStream_t stream) {
  const auto aligned = reinterpret_cast<uintptr_t>(in) % 16 == 0
                       && reinterpret_cast<uintptr_t>(out) % 8 == 0;
  if (count % 4 == 0 && aligned)
    launch_each(count / 4,
                RoundPairs{reinterpret_cast<const float4*>(in),
                           static_cast<uint2*>(out)},
                stream);
  else
    launch_each(count, Round{in, static_cast<bfloat16*>(out)}, stream);
}

void bias_activation(Activation activation, const void* z, const void* bias,
                     void* y, uint64_t rows, uint32_t columns, bool half,
                     cudaStream_t stream) {
  if (half)
    bias_activation_of<bfloat16>(activation, z, bias, y, rows, columns, stream);
  else
    bias_activation_of<float>(activation, z, bias, y, rows, columns, stream);
}

} // namespace troupe::kernels::cuda
