#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_tiles.cuh"

namespace troupe::kernels::cuda {

namespace {

/// What the forward pass keeps of a row while it walks over the keys; a thread
/// has two rows.
template <uint32_t Size>
struct Walk {
  Accumulator y[Size / 8] = {};
  float largest[2] = {-INFINITY, -INFINITY};
  float total[2] = {0, 0}; ///< of this thread's columns

  /// Takes a tile of scores, times factor and log2 e, and turns them into
  /// exponentials against the largest so far; what was summed before shrinks.
  template <uint32_t Columns>
  __device__ void take(Accumulator (&s)[Columns / 8], const AttentionArgs& args,
                       uint32_t query, uint32_t first, float factor) {
    float highest[2] = {largest[0], largest[1]};
#pragma unroll
    for (uint32_t n = 0; n < Columns / 8; ++n)
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) {
        const auto key = column_at(first, n, e);
        const bool seen = key < args.length
                          && (!args.causal || key <= row_at(query, e));
        s[n][e] = seen ? s[n][e] * factor : -INFINITY;
        highest[e / 2] = fmaxf(highest[e / 2], s[n][e]);
      }
    float base[2];
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      highest[h] = row_max(highest[h]);
      base[h] = highest[h] == -INFINITY ? 0.0f : highest[h];
      const auto shrink = exp2f(largest[h] - base[h]);
      largest[h] = highest[h];
      total[h] *= shrink;
#pragma unroll
      for (auto& tile : y) {
        tile[2 * h] *= shrink;
        tile[2 * h + 1] *= shrink;
      }
    }
#pragma unroll
    for (auto& tile : s)
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) {
        tile[e] = exp2f(tile[e] - base[e / 2]);
        total[e / 2] += tile[e];
      }
  }
};

template <uint32_t Size>
__global__ void __launch_bounds__(threads)
  tensor_forward_kernel(const __grid_constant__ AttentionArgs args) {
  constexpr auto columns = tile_rows<Size>;
  extern __shared__ __align__(16) bfloat16 tiles[];
  auto* queries = tiles;
  auto* keys = queries + own_rows * tile_stride<Size>;
  auto* values = keys + columns * tile_stride<Size>;
  const Place place{args};
  const auto begin = blockIdx.x * own_rows;
  const auto mine = threadIdx.x / warp * 16;
  load_rows<Size, own_rows>(queries, place.in(0), 3 * args.width, begin,
                            args.length);
  Walk<Size> walk;
  const auto factor = args.scale * log2_e; // powers of two from here on
  const auto last = args.causal ? min(args.length, begin + own_rows)
                                : args.length;
  for (uint32_t first = 0; first < last; first += columns) {
    __syncthreads();
    load_rows<Size, columns>(keys, place.in(1), 3 * args.width, first,
                             args.length);
    load_rows<Size, columns>(values, place.in(2), 3 * args.width, first,
                             args.length);
    __syncthreads();
    Accumulator s[columns / 8];
    scores<Size, columns>(s, queries, mine, keys);
    walk.template take<columns>(s, args, begin + mine, first, factor);
    combine<Size, columns>(walk.y, s, values);
  }
  float inverse[2];
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) {
    const auto total = row_sum(walk.total[h]);
    inverse[h] = 1.0f / total;
    const auto query = row_at(begin + mine, 2 * h);
    if (threadIdx.x % 4 == 0 && query < args.length)
      args.kept[place.kept() + query] = walk.largest[h] + log2f(total);
  }
  store_rows<Size>(
    static_cast<bfloat16*>(const_cast<void*>(args.y)) + place.y(), args.width,
    begin + mine, args.length, walk.y, inverse[0], inverse[1]);
}

template <uint32_t Size>
__global__ void __launch_bounds__(threads)
  tensor_query_kernel(const __grid_constant__ AttentionArgs args) {
  constexpr auto columns = tile_rows<Size>;
  extern __shared__ __align__(16) bfloat16 tiles[];
  auto* queries = tiles;
  auto* gradients = queries + own_rows * tile_stride<Size>;
  auto* keys = gradients + own_rows * tile_stride<Size>;
  auto* values = keys + columns * tile_stride<Size>;
  const Place place{args};
  const auto begin = blockIdx.x * own_rows;
  const auto mine = threadIdx.x / warp * 16;
  load_rows<Size, own_rows>(queries, place.in(0), 3 * args.width, begin,
                            args.length);
  load_rows<Size, own_rows>(gradients, place.gradient(), args.width, begin,
                            args.length);
  float kept[2] = {0, 0};
  float delta[2] = {0, 0};
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h)
    if (const auto query = row_at(begin + mine, 2 * h); query < args.length) {
      kept[h] = args.kept[place.kept() + query];
      delta[h] = args.delta[place.kept() + query];
    }
  Accumulator dq[Size / 8] = {};
  const auto factor = args.scale * log2_e;
  const auto last = args.causal ? min(args.length, begin + own_rows)
                                : args.length;
  for (uint32_t first = 0; first < last; first += columns) {
    __syncthreads();
    load_rows<Size, columns>(keys, place.in(1), 3 * args.width, first,
                             args.length);
    load_rows<Size, columns>(values, place.in(2), 3 * args.width, first,
                             args.length);
    __syncthreads();
    Accumulator s[columns / 8];
    Accumulator dp[columns / 8];
    scores<Size, columns>(s, queries, mine, keys);
    scores<Size, columns>(dp, gradients, mine, values);
#pragma unroll
    for (uint32_t n = 0; n < columns / 8; ++n)
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) {
        const auto key = column_at(first, n, e);
        const bool seen = key < args.length
                          && (!args.causal || key <= row_at(begin + mine, e));
        const auto p = seen ? exp2f(s[n][e] * factor - kept[e / 2]) : 0.0f;
        s[n][e] = p * (dp[n][e] - delta[e / 2]);
      }
    combine<Size, columns>(dq, s, keys);
  }
  store_rows<Size>(static_cast<bfloat16*>(args.dx) + place.x(0), 3 * args.width,
                   begin + mine, args.length, dq, args.scale, args.scale);
}

// As the queries' kernel with the sides changed: scores are [keys, queries].
template <uint32_t Size>
__global__ void __launch_bounds__(threads)
  tensor_key_kernel(const __grid_constant__ AttentionArgs args) {
  constexpr auto columns = tile_rows<Size>;
  extern __shared__ __align__(16) bfloat16 tiles[];
  __shared__ float kept[columns];
  __shared__ float delta[columns];
  auto* keys = tiles;
  auto* values = keys + own_rows * tile_stride<Size>;
  auto* queries = values + own_rows * tile_stride<Size>;
  auto* gradients = queries + columns * tile_stride<Size>;
  const Place place{args};
  const auto begin = blockIdx.x * own_rows;
  const auto mine = threadIdx.x / warp * 16;
  load_rows<Size, own_rows>(keys, place.in(1), 3 * args.width, begin,
                            args.length);
  load_rows<Size, own_rows>(values, place.in(2), 3 * args.width, begin,
                            args.length);
  Accumulator dk[Size / 8] = {};
  Accumulator dv[Size / 8] = {};
  const auto factor = args.scale * log2_e;
  for (auto first = args.causal ? begin : 0; first < args.length;
       first += columns) {
    __syncthreads();
    load_rows<Size, columns>(queries, place.in(0), 3 * args.width, first,
                             args.length);
    load_rows<Size, columns>(gradients, place.gradient(), args.width, first,
                             args.length);
    if (threadIdx.x < columns) {
      const auto query = first + threadIdx.x;
      const bool there = query < args.length;
      kept[threadIdx.x] = there ? args.kept[place.kept() + query] : 0.0f;
      delta[threadIdx.x] = there ? args.delta[place.kept() + query] : 0.0f;
    }
    __syncthreads();
    Accumulator s[columns / 8];
    scores<Size, columns>(s, keys, mine, queries);
#pragma unroll
    for (uint32_t n = 0; n < columns / 8; ++n)
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) {
        const auto query = column_at(first, n, e);
        const auto key = row_at(begin + mine, e);
        const bool seen = query < args.length && key < args.length
                          && (!args.causal || key <= query);
        s[n][e] = seen ? exp2f(s[n][e] * factor - kept[column_at(0, n, e)])
                       : 0.0f;
      }
    combine<Size, columns>(dv, s, gradients);
    Accumulator dp[columns / 8];
    scores<Size, columns>(dp, values, mine, gradients);
#pragma unroll
    for (uint32_t n = 0; n < columns / 8; ++n)
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e)
        s[n][e] *= dp[n][e] - delta[column_at(0, n, e)];
    combine<Size, columns>(dk, s, queries);
  }
  auto* dx = static_cast<bfloat16*>(args.dx);
  store_rows<Size>(dx + place.x(1), 3 * args.width, begin + mine, args.length,
                   dk, args.scale, args.scale);
  store_rows<Size>(dx + place.x(2), 3 * args.width, begin + mine, args.length,
                   dv, 1, 1);
}

// A warp takes a query and head.
__global__ void __launch_bounds__(threads)
  tensor_delta_kernel(const __grid_constant__ AttentionArgs args) {
  const auto query = blockIdx.x * (threads / warp) + threadIdx.x / warp;
  if (query >= args.length)
    return;
  const Place place{args};
  const auto* y = static_cast<const bfloat16*>(args.y) + place.y()
                  + uint64_t{query} * args.width;
  const auto* dy = place.gradient() + uint64_t{query} * args.width;
  float sum = 0;
  for (auto c = threadIdx.x % warp; c < args.head(); c += warp)
    sum += value_of(y[c]) * value_of(dy[c]);
  sum = warp_sum(sum);
  if (threadIdx.x % warp == 0)
    args.delta[place.kept() + query] = sum;
}

template <uint32_t Size>
void launch(const AttentionArgs& args, bool backward, cudaStream_t stream) {
  const dim3 grid(static_cast<uint32_t>(over(args.length, own_rows)),
                  args.heads, args.rows);
  constexpr auto bytes = shared_bytes<Size>;
  auto raise = [](auto* kernel) {
    if (bytes > 48 * 1024)
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(bytes));
  };
  if (!backward) {
    raise(tensor_forward_kernel<Size>);
    tensor_forward_kernel<Size><<<grid, threads, bytes, stream>>>(args);
    return;
  }
  const dim3 rows(static_cast<uint32_t>(over(args.length, threads / warp)),
                  args.heads, args.rows);
  tensor_delta_kernel<<<rows, threads, 0, stream>>>(args);
  raise(tensor_query_kernel<Size>);
  tensor_query_kernel<Size><<<grid, threads, bytes, stream>>>(args);
  raise(tensor_key_kernel<Size>);
  tensor_key_kernel<Size><<<grid, threads, bytes, stream>>>(args);
}

void launch_for_head(const AttentionArgs& args, bool backward,
                     cudaStream_t stream) {
  if (args.head() == 32)
    launch<32>(args, backward, stream);
  else if (args.head() == 64)
    launch<64>(args, backward, stream);
  else
    launch<128>(args, backward, stream);
}

} // namespace

bool fits_tensor_cores(const AttentionArgs& args) {
  return args.half_x && args.half_y && !args.accumulate
         && (args.head() == 32 || args.head() == 64 || args.head() == 128);
}

void tensor_attention_forward(const AttentionArgs& args, cudaStream_t stream) {
  launch_for_head(args, false, stream);
}

void tensor_attention_backward(const AttentionArgs& args, cudaStream_t stream) {
  launch_for_head(args, true, stream);
}

} // namespace troupe::kernels::cuda
