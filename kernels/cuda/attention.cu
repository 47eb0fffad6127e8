#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/operators.cuh"

#include <cmath>

namespace troupe::kernels {

namespace cuda {

namespace {

constexpr uint32_t warps = 8;
constexpr uint32_t tile = warp; ///< keys, or queries, in shared memory

__device__ inline float at(const void* values, bool half, uint64_t i) {
  return half ? value_of(static_cast<const bfloat16*>(values)[i])
              : static_cast<const float*>(values)[i];
}

__device__ inline void put(void* values, bool half, bool accumulate, uint64_t i,
                           float x) {
  if (accumulate)
    x += at(values, half, i);
  if (half)
    static_cast<bfloat16*>(values)[i] = rounded<bfloat16>(x);
  else
    static_cast<float*>(values)[i] = x;
}

/// Where a head's vectors lie: part 0, 1, 2 of x is query, key, value.
struct Head {
  const AttentionArgs& args;
  uint32_t row;
  uint32_t head;

  __device__ uint64_t x(uint32_t part, uint32_t position) const {
    return (uint64_t{row} * args.length + position) * args.stride()
           + args.first(part, head);
  }
  __device__ uint64_t y(uint32_t position) const {
    return (uint64_t{row} * args.length + position) * args.width()
           + head * args.head;
  }
  __device__ uint64_t kept(uint32_t position) const {
    return (uint64_t{row} * args.heads + head) * args.length + position;
  }
};

/// Copies a vector each of up to 32 positions; zeros beyond the length. Rows
/// are one element longer than a head: no bank conflicts down a column.
__device__ void load_tile(float* to, const AttentionArgs& args,
                          const Head& head, int part, uint32_t begin) {
  const auto size = args.head;
  for (auto i = threadIdx.y * warp + threadIdx.x; i < tile * size;
       i += warps * warp) {
    const auto position = begin + i / size;
    const auto c = i % size;
    float x = 0;
    if (position < args.length)
      x = part < 3 ? at(args.x, args.half_x, head.x(part, position) + c)
                   : at(args.dy, args.half_y, head.y(position) + c);
    to[i / size * (size + 1) + c] = x;
  }
}

__device__ float dot(const float* a, const float* b, uint32_t size) {
  float sum = 0;
  for (uint32_t c = 0; c < size; ++c)
    sum += a[c] * b[c];
  return sum;
}

/// sum[k] += the lanes' p times row `lane` of the tile, column lane + 32 k.
template <uint32_t Parts>
__device__ void
add_rows(float (&sum)[Parts], float p, const float* rows, uint32_t size) {
  for (uint32_t j = 0; j < tile; ++j) {
    const auto factor = __shfl_sync(everyone, p, j);
#pragma unroll
    for (uint32_t k = 0; k < Parts; ++k)
      if (threadIdx.x + k * warp < size)
        sum[k] += factor * rows[j * (size + 1) + threadIdx.x + k * warp];
  }
}

// A warp takes a query; the block's 8 queries share the tiles of keys. A lane
// scores one key of the tile and sums the columns lane, lane + 32, … of y.
template <uint32_t Parts>
__global__ void __launch_bounds__(warps* warp)
  forward_kernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ float memory[];
  const auto size = args.head;
  auto* keys = memory;
  auto* values = keys + tile * (size + 1);
  auto* queries = values + tile * (size + 1);
  const Head head{args, blockIdx.z, blockIdx.y};
  const auto query = blockIdx.x * warps + threadIdx.y;
  auto* q = queries + threadIdx.y * size;
  for (auto c = threadIdx.x; c < size; c += warp)
    q[c] = query < args.length
             ? args.scale * at(args.x, args.half_x, head.x(0, query) + c)
             : 0.0f;
  float sum[Parts] = {};
  float largest = -INFINITY;
  float total = 0;
  const auto last = args.causal ? min(args.length, (blockIdx.x + 1) * warps)
                                : args.length;
  for (uint32_t begin = 0; begin < last; begin += tile) {
    __syncthreads();
    load_tile(keys, args, head, 1, begin);
    load_tile(values, args, head, 2, begin);
    __syncthreads();
    const auto key = begin + threadIdx.x;
    const bool seen = key < args.length && (!args.causal || key <= query);
    const auto score = seen ? dot(q, keys + threadIdx.x * (size + 1), size)
                            : -INFINITY;
    auto highest = fmaxf(largest, score);
    for (auto apart = warp / 2; apart > 0; apart /= 2)
      highest = fmaxf(highest, __shfl_xor_sync(everyone, highest, apart));
    // The first tile has a key for every query below the length; beyond, all
    // is thrown away.
    const auto base = highest == -INFINITY ? 0.0f : highest;
    const auto shrink = expf(largest - base);
    const auto p = seen ? expf(score - base) : 0.0f;
    total = total * shrink + warp_sum(p);
    largest = highest;
#pragma unroll
    for (uint32_t k = 0; k < Parts; ++k)
      sum[k] *= shrink;
    add_rows(sum, p, values, size);
  }
  if (query >= args.length)
    return;
  if (threadIdx.x == 0)
    args.kept[head.kept(query)] = largest + logf(total);
#pragma unroll
  for (uint32_t k = 0; k < Parts; ++k)
    if (threadIdx.x + k * warp < size)
      put(const_cast<void*>(args.y), args.half_y, false,
          head.y(query) + threadIdx.x + k * warp, sum[k] / total);
}

// As the forward pass; a lane's key gives one element of the scores' gradient.
template <uint32_t Parts>
__global__ void __launch_bounds__(warps* warp)
  query_gradient_kernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ float memory[];
  const auto size = args.head;
  auto* keys = memory;
  auto* values = keys + tile * (size + 1);
  auto* queries = values + tile * (size + 1);
  const Head head{args, blockIdx.z, blockIdx.y};
  const auto query = blockIdx.x * warps + threadIdx.y;
  auto* q = queries + threadIdx.y * 2 * size;
  auto* dy = q + size;
  const bool there = query < args.length;
  for (auto c = threadIdx.x; c < size; c += warp) {
    q[c] = there ? args.scale * at(args.x, args.half_x, head.x(0, query) + c)
                 : 0.0f;
    dy[c] = there ? at(args.dy, args.half_y, head.y(query) + c) : 0.0f;
  }
  const auto kept = there ? args.kept[head.kept(query)] : 0.0f;
  const auto delta = there ? args.delta[head.kept(query)] : 0.0f;
  float sum[Parts] = {};
  const auto last = args.causal ? min(args.length, (blockIdx.x + 1) * warps)
                                : args.length;
  for (uint32_t begin = 0; begin < last; begin += tile) {
    __syncthreads();
    load_tile(keys, args, head, 1, begin);
    load_tile(values, args, head, 2, begin);
    __syncthreads();
    const auto key = begin + threadIdx.x;
    const auto* k = keys + threadIdx.x * (size + 1);
    const auto* v = values + threadIdx.x * (size + 1);
    const bool seen = there && key < args.length
                      && (!args.causal || key <= query);
    const auto p = seen ? expf(dot(q, k, size) - kept) : 0.0f;
    const auto ds = seen ? p * (dot(dy, v, size) - delta) * args.scale : 0.0f;
    add_rows(sum, ds, keys, size);
  }
  if (!there)
    return;
#pragma unroll
  for (uint32_t k = 0; k < Parts; ++k)
    if (threadIdx.x + k * warp < size)
      put(args.dx, args.half_x, args.accumulate,
          head.x(0, query) + threadIdx.x + k * warp, sum[k]);
}

// A warp takes a key; the block's 8 keys share the tiles of queries, of which
// a lane takes one. Heads that share the key are added in their order.
template <uint32_t Parts>
__global__ void __launch_bounds__(warps* warp)
  key_gradient_kernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ float memory[];
  const auto size = args.head;
  auto* queries = memory;
  auto* gradients = queries + tile * (size + 1);
  auto* own = gradients + tile * (size + 1);
  const Head first_head{args, blockIdx.z, blockIdx.y * args.group()};
  const auto key = blockIdx.x * warps + threadIdx.y;
  auto* k = own + threadIdx.y * 2 * size;
  auto* v = k + size;
  const bool there = key < args.length;
  for (auto c = threadIdx.x; c < size; c += warp) {
    k[c] = there
             ? args.scale * at(args.x, args.half_x, first_head.x(1, key) + c)
             : 0.0f;
    v[c] = there ? at(args.x, args.half_x, first_head.x(2, key) + c) : 0.0f;
  }
  float key_sum[Parts] = {};
  float value_sum[Parts] = {};
  const auto first = args.causal ? blockIdx.x * warps / tile * tile : 0;
  for (uint32_t h = 0; h < args.group(); ++h) {
    const Head head{args, blockIdx.z, first_head.head + h};
    for (auto begin = first; begin < args.length; begin += tile) {
      __syncthreads();
      load_tile(queries, args, head, 0, begin);
      load_tile(gradients, args, head, 3, begin);
      __syncthreads();
      const auto query = begin + threadIdx.x;
      const auto* q = queries + threadIdx.x * (size + 1);
      const auto* dy = gradients + threadIdx.x * (size + 1);
      const bool seen = there && query < args.length
                        && (!args.causal || key <= query);
      const auto kept = seen ? args.kept[head.kept(query)] : 0.0f;
      const auto delta = seen ? args.delta[head.kept(query)] : 0.0f;
      const auto p = seen ? expf(dot(k, q, size) - kept) : 0.0f;
      const auto ds = seen ? p * (dot(v, dy, size) - delta) * args.scale : 0.0f;
      add_rows(value_sum, p, gradients, size);
      add_rows(key_sum, ds, queries, size);
    }
  }
  if (!there)
    return;
#pragma unroll
  for (uint32_t i = 0; i < Parts; ++i)
    if (threadIdx.x + i * warp < size) {
      const auto c = threadIdx.x + i * warp;
      put(args.dx, args.half_x, args.accumulate, first_head.x(1, key) + c,
          key_sum[i]);
      put(args.dx, args.half_x, args.accumulate, first_head.x(2, key) + c,
          value_sum[i]);
    }
}

// A warp takes a query and head.
__global__ void __launch_bounds__(warps* warp)
  delta_of_kernel(const __grid_constant__ AttentionArgs args) {
  const auto query = blockIdx.x * warps + threadIdx.y;
  if (query >= args.length)
    return;
  const Head head{args, blockIdx.z, blockIdx.y};
  float sum = 0;
  for (auto c = threadIdx.x; c < args.head; c += warp)
    sum += at(args.y, args.half_y, head.y(query) + c)
           * at(args.dy, args.half_y, head.y(query) + c);
  sum = warp_sum(sum);
  if (threadIdx.x == 0)
    args.delta[head.kept(query)] = sum;
}

template <uint32_t Parts>
void launch(const AttentionArgs& args, bool backward, cudaStream_t stream) {
  const dim3 grid(static_cast<uint32_t>(over(args.length, warps)), args.heads,
                  args.rows);
  const dim3 block(warp, warps);
  const auto tiles = 2 * tile * (args.head + 1);
  const auto bytes = (tiles + (backward ? 2 : 1) * warps * args.head)
                     * sizeof(float);
  // The limit is one for all heads of so many parts.
  constexpr auto most = Parts * warp;
  constexpr auto max_bytes = (2 * tile * (most + 1) + 2 * warps * most)
                             * sizeof(float);
  auto raise = [](auto* kernel) {
    if (max_bytes > 48 * 1024)
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(max_bytes));
  };
  if (!backward) {
    raise(forward_kernel<Parts>);
    forward_kernel<Parts><<<grid, block, bytes, stream>>>(args);
    return;
  }
  delta_of_kernel<<<grid, block, 0, stream>>>(args);
  raise(query_gradient_kernel<Parts>);
  query_gradient_kernel<Parts><<<grid, block, bytes, stream>>>(args);
  raise(key_gradient_kernel<Parts>);
  const dim3 keys(grid.x, args.key_heads, args.rows);
  key_gradient_kernel<Parts><<<keys, block, bytes, stream>>>(args);
}

void launch_for_head(const AttentionArgs& args, bool backward,
                     cudaStream_t stream) {
  if (args.head <= warp)
    launch<1>(args, backward, stream);
  else if (args.head <= 2 * warp)
    launch<2>(args, backward, stream);
  else if (args.head <= 4 * warp)
    launch<4>(args, backward, stream);
  else
    launch<8>(args, backward, stream);
}

} // namespace

void attention_forward(const AttentionArgs& args, cudaStream_t stream) {
  launch_for_head(args, false, stream);
}

void attention_backward(const AttentionArgs& args, cudaStream_t stream) {
  launch_for_head(args, true, stream);
}

} // namespace cuda

namespace {

/// Keeps one number for each query and head; the scores are worked out again in
/// the backward pass.
/// Source: Dao, FlashAttention-2, 2023.
class Attention final : public CudaOperator {
public:
  explicit Attention(const CudaOpSite& site) : CudaOperator(site) {
    args_.length = static_cast<uint32_t>(site.output().at(0));
    args_.heads = site.op().attributes.heads;
    args_.key_heads = site.op().attributes.key_heads();
    const auto width = static_cast<uint32_t>(site.output().at(1));
    require(args_.heads > 0 && width % args_.heads == 0
              && args_.heads % args_.key_heads == 0,
            "heads of attention");
    args_.head = width / args_.heads;
    require(site.input(0) == Shape{args_.length, args_.stride()},
            "attention takes [t, queries, keys and values]");
    args_.scale = 1.0f / std::sqrt(static_cast<float>(args_.head));
    args_.causal = site.op().attributes.causal;
    args_.half_x = site.half_input(0);
    args_.half_y = site.half_output();
    if (args_.head > 256)
      throw InputError("operator " + name_ + ": heads of "
                       + std::to_string(args_.head)
                       + " are more than the 256 that " + site.context.name()
                       + " computes; use more heads");
    constexpr uint32_t max_samples = 65'535; // of a grid's second extents
    if (site.max_rows > max_samples)
      throw InputError(
        "operator " + name_ + ": micro-batches of "
        + std::to_string(site.max_rows) + " samples are more than the "
        + std::to_string(max_samples) + " that " + site.context.name()
        + " computes; use more --virtual-ranks");
  }

  Needs needs() const override {
    Needs needs;
    const auto kept = uint64_t{args_.heads} * args_.length;
    needs.saved = {kept, 0};
    needs.scratch = {kept, 0};
    needs.backward_reads_inputs = 1;
    needs.backward_reads_output = true;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    auto pass = pass_of(args);
    if (fits_tensor_cores(pass))
      cuda::tensor_attention_forward(pass, stream());
    else
      cuda::attention_forward(pass, stream());
    launched();
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] == nullptr)
      return;
    auto pass = pass_of(args);
    pass.dy = args.output_gradient;
    pass.dx = args.input_gradients[0];
    pass.delta = args.scratch;
    pass.accumulate = args.accumulate_inputs[0] != 0;
    if (fits_tensor_cores(pass)) {
      require(!pass.accumulate, "a bfloat16 value has one reader");
      cuda::tensor_attention_backward(pass, stream());
    } else {
      cuda::attention_backward(pass, stream());
    }
    launched();
  }

private:
  cuda::AttentionArgs pass_of(const OpArgs& args) const {
    auto pass = args_;
    pass.x = args.inputs[0];
    pass.y = args.output;
    pass.kept = args.saved;
    pass.rows = args.rows;
    return pass;
  }

  cuda::AttentionArgs args_{};
};

} // namespace

OperatorPtr make_cuda_attention(const CudaOpSite& site) {
  return std::make_unique<Attention>(site);
}

} // namespace troupe::kernels
