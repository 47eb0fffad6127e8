#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_tiles.cuh"

namespace troupe::kernels::cuda {

namespace {

/// Columns that the backward kernels take at a time: a part of a stage.
constexpr uint32_t step = 32;

/// Keys that some query of the warp sees: those below.
template <uint32_t Size>
__device__ uint32_t keys_seen(const AttentionArgs& args, uint32_t query) {
  return args.causal ? min(args.length, query + warp_rows<Size>) : args.length;
}

/// Takes keys out, from `first` on, that a query does not see.
template <uint32_t Size, uint32_t Columns>
__device__ void hide_keys(Sums<Size, Columns>& s, const AttentionArgs& args,
                          uint32_t query, uint32_t first) {
  const auto all_see = args.causal ? min(args.length, query + 1) : args.length;
  if (first + Columns <= all_see)
    return;
#pragma unroll
  for (uint32_t m = 0; m < row_tiles<Size>; ++m)
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) {
      const auto sees = args.causal ? min(args.length, row_at(query, m, e) + 1)
                                    : args.length;
#pragma unroll
      for (uint32_t n = 0; n < Columns / 8; ++n)
        if (column_at(first, n, e) >= sees)
          s[m][n][e] = -INFINITY;
    }
}

/// Begins to copy keys from `first` on, and their values.
template <uint32_t Size>
__device__ void copy_keys(Stage<Size>& to, const AttentionArgs& args,
                          const bfloat16* keys, uint32_t first) {
  copy_rows<Size, stage_rows<Size>>(to.first, keys, args.stride(), first,
                                    args.length);
  copy_rows<Size, stage_rows<Size>>(to.second, keys + args.key_heads * Size,
                                    args.stride(), first, args.length);
}

/// What the forward pass keeps of its rows while it walks over the keys.
template <uint32_t Size>
struct Walk {
  Sums<Size, Size> y = {};
  RowValues<Size> largest{-INFINITY};
  RowValues<Size> total{0}; ///< of this thread's columns

  /// Turns scores into powers of two, times factor and against the largest so
  /// far; what was summed before shrinks. Every row has a key by now: a first
  /// tile has one for all.
  template <uint32_t Columns>
  __device__ void take(Sums<Size, Columns>& s, float factor) {
#pragma unroll
    for (uint32_t m = 0; m < row_tiles<Size>; ++m) {
      float highest[2] = {largest.of[m][0], largest.of[m][1]};
#pragma unroll
      for (auto& tile : s[m])
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e)
          highest[e / 2] = fmaxf(highest[e / 2], tile[e]);
      float base[2];
#pragma unroll
      for (uint32_t h = 0; h < 2; ++h) {
        highest[h] = row_max(highest[h]);
        base[h] = highest[h] * factor;
        const auto shrink = exp2_of(largest.of[m][h] * factor - base[h]);
        largest.of[m][h] = highest[h];
        total.of[m][h] *= shrink;
#pragma unroll
        for (auto& tile : y[m]) {
          tile[2 * h] *= shrink;
          tile[2 * h + 1] *= shrink;
        }
      }
#pragma unroll
      for (auto& tile : s[m])
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e) {
          tile[e] = exp2_of(tile[e] * factor - base[e / 2]);
          total.of[m][e / 2] += tile[e];
        }
    }
  }
};

// Blocks of the grid are (head, row, own rows); those with the most to do come
// first.
template <uint32_t Size>
__global__ void __launch_bounds__(threads, 2)
  tensor_forward_kernel(const __grid_constant__ AttentionArgs args) {
  constexpr auto columns = stage_rows<Size>;
  extern __shared__ __align__(16) char memory[];
  auto& tiles = *reinterpret_cast<Tiles<Size>*>(memory);
  const Place place{args, blockIdx.x};
  const auto begin = (gridDim.z - 1 - blockIdx.z) * own_rows<Size>;
  const auto mine = threadIdx.x / warp * warp_rows<Size>;
  const auto* keys = place.in(1);
  const auto fetch = [&, keys](uint32_t first) {
    copy_keys<Size>(tiles.stage[first / columns % 2], args, keys, first);
  };
  copy_rows<Size, own_rows<Size>>(tiles.own[0], place.in(0), args.stride(),
                                  begin, args.length);
  fetch(0);
  await_stage();
  const KeptRows<Size> queries(tiles.own[0] + mine * row_stride<Size>);
  Walk<Size> walk;
  const auto factor = args.scale * log2_e; // powers of two from here on
  const auto last = args.causal ? min(args.length, begin + own_rows<Size>)
                                : args.length;
  const auto seen = keys_seen<Size>(args, begin + mine);
  for (uint32_t first = 0; first < last; first += columns) {
    if (first + columns < last)
      fetch(first + columns);
    if (first < seen) {
      const auto& stage = tiles.stage[first / columns % 2];
      Sums<Size, columns> s;
      scores<Size, columns>(s, queries, stage.first);
      hide_keys<Size, columns>(s, args, begin + mine, first);
      walk.template take<columns>(s, factor);
      combine<Size, columns>(walk.y, s, stage.second);
    }
    await_stage();
  }
  RowValues<Size> inverse{0};
#pragma unroll
  for (uint32_t m = 0; m < row_tiles<Size>; ++m)
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const auto total = row_sum(walk.total.of[m][h]);
      inverse.of[m][h] = 1.0f / total;
      const auto query = row_at(begin + mine, m, 2 * h);
      if (threadIdx.x % 4 == 0 && query < args.length)
        args.kept[place.kept() + query] = walk.largest.of[m][h] * factor
                                          + log2f(total);
    }
  store_rows<Size>(static_cast<bfloat16*>(const_cast<void*>(args.y))
                     + place.y(),
                   args.width(), begin + mine, args.length, walk.y, inverse);
}

/// The sums of y dy of a warp's rows, for this kernel and the keys'.
template <uint32_t Size>
__device__ RowValues<Size> sum_deltas(const AttentionArgs& args,
                                      const Place& place, uint32_t row,
                                      const KeptRows<Size>& gradients) {
  RowValues<Size> delta{0};
  const auto* y = static_cast<const bfloat16*>(args.y) + place.y();
#pragma unroll
  for (uint32_t m = 0; m < row_tiles<Size>; ++m)
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const auto query = row_at(row, m, 2 * h);
      float sum = 0;
      if (query < args.length)
#pragma unroll
        for (uint32_t n = 0; n < Size / 8; ++n) {
          const auto a = *reinterpret_cast<const __nv_bfloat162*>(
            y + uint64_t{query} * args.width() + column_at(0, n, 0));
          const auto b = reinterpret_cast<const __nv_bfloat162&>(
            gradients.tile[m][n / 2].part[n % 2 * 2 + h]);
          sum += value_of(a.x) * value_of(b.x) + value_of(a.y) * value_of(b.y);
        }
      delta.of[m][h] = row_sum(sum);
      if (threadIdx.x % 4 == 0 && query < args.length)
        args.delta[place.kept() + query] = delta.of[m][h];
    }
  return delta;
}

template <uint32_t Size>
__global__ void __launch_bounds__(threads, 2)
  tensor_query_kernel(const __grid_constant__ AttentionArgs args) {
  constexpr auto columns = stage_rows<Size>;
  extern __shared__ __align__(16) char memory[];
  auto& tiles = *reinterpret_cast<Tiles<Size>*>(memory);
  const Place place{args, blockIdx.x};
  const auto begin = (gridDim.z - 1 - blockIdx.z) * own_rows<Size>;
  const auto mine = threadIdx.x / warp * warp_rows<Size>;
  const auto* keys = place.in(1);
  const auto fetch = [&, keys](uint32_t first) {
    copy_keys<Size>(tiles.stage[first / columns % 2], args, keys, first);
  };
  copy_rows<Size, own_rows<Size>>(tiles.own[0], place.in(0), args.stride(),
                                  begin, args.length);
  copy_rows<Size, own_rows<Size>>(tiles.own[1], place.gradient(), args.width(),
                                  begin, args.length);
  fetch(0);
  await_stage();
  const KeptRows<Size> queries(tiles.own[0] + mine * row_stride<Size>);
  const KeptRows<Size> gradients(tiles.own[1] + mine * row_stride<Size>);
  const auto delta = sum_deltas<Size>(args, place, begin + mine, gradients);
  RowValues<Size> kept{0};
#pragma unroll
  for (uint32_t m = 0; m < row_tiles<Size>; ++m)
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const auto query = row_at(begin + mine, m, 2 * h);
      if (query < args.length)
        kept.of[m][h] = args.kept[place.kept() + query];
    }
  Sums<Size, Size> dq = {};
  const auto factor = args.scale * log2_e;
  const auto last = args.causal ? min(args.length, begin + own_rows<Size>)
                                : args.length;
  const auto seen = keys_seen<Size>(args, begin + mine);
  for (uint32_t first = 0; first < last; first += columns) {
    if (first + columns < last)
      fetch(first + columns);
    const auto& stage = tiles.stage[first / columns % 2];
    for (uint32_t c = 0; c < columns && first + c < seen; c += step) {
      const auto* rows = stage.first + c * row_stride<Size>;
      Sums<Size, step> s;
      Sums<Size, step> dp;
      scores<Size, step>(s, queries, rows);
      scores<Size, step>(dp, gradients, stage.second + c * row_stride<Size>);
      hide_keys<Size, step>(s, args, begin + mine, first + c);
#pragma unroll
      for (uint32_t m = 0; m < row_tiles<Size>; ++m)
#pragma unroll
        for (uint32_t n = 0; n < step / 8; ++n)
#pragma unroll
          for (uint32_t e = 0; e < 4; ++e)
            s[m][n][e] = exp2_of(s[m][n][e] * factor - kept.of[m][e / 2])
                         * (dp[m][n][e] - delta.of[m][e / 2]);
      combine<Size, step>(dq, s, rows);
    }
    await_stage();
  }
  store_rows<Size>(static_cast<bfloat16*>(args.dx) + place.x(0), args.stride(),
                   begin + mine, args.length, dq, RowValues<Size>{args.scale});
}

/// Takes queries out, from `first` on, that do not see a key. Those beyond the
/// length are zeros, as their gradients are.
template <uint32_t Size>
__device__ void hide_queries(Sums<Size, step>& s, const AttentionArgs& args,
                             uint32_t key, uint32_t first) {
  if (!args.causal || key + warp_rows<Size> <= first + 1)
    return;
#pragma unroll
  for (uint32_t m = 0; m < row_tiles<Size>; ++m)
#pragma unroll
    for (uint32_t n = 0; n < step / 8; ++n)
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e)
        if (column_at(first, n, e) < row_at(key, m, e))
          s[m][n][e] = -INFINITY;
}

// As the queries' kernel with the sides changed: scores are [keys, queries].
// Heads that share the keys are added in their order.
template <uint32_t Size>
__global__ void __launch_bounds__(threads, 2)
  tensor_key_kernel(const __grid_constant__ AttentionArgs args) {
  constexpr auto columns = stage_rows<Size>;
  extern __shared__ __align__(16) char memory[];
  auto& tiles = *reinterpret_cast<Tiles<Size>*>(memory);
  const Place own{args, blockIdx.x * args.group()};
  const auto begin = blockIdx.z * own_rows<Size>;
  const auto mine = threadIdx.x / warp * warp_rows<Size>;
  const auto start = args.causal ? begin : 0;
  const auto fetch = [&](uint32_t i, uint32_t head, uint32_t first) {
    const Place place{args, head};
    auto& stage = tiles.stage[i % 2];
    copy_rows<Size, columns>(stage.first, place.in(0), args.stride(), first,
                             args.length);
    copy_rows<Size, columns>(stage.second, place.gradient(), args.width(),
                             first, args.length);
    if (threadIdx.x < columns) {
      const auto query = first + threadIdx.x;
      const bool there = query < args.length;
      copy_async<1>(stage.kept + threadIdx.x, args.kept + place.kept() + query,
                    there);
      copy_async<1>(stage.delta + threadIdx.x,
                    args.delta + place.kept() + query, there);
    }
  };
  copy_rows<Size, own_rows<Size>>(tiles.own[0], own.in(1), args.stride(), begin,
                                  args.length);
  copy_rows<Size, own_rows<Size>>(tiles.own[1], own.in(2), args.stride(), begin,
                                  args.length);
  fetch(0, own.head, start);
  await_stage();
  const SharedRows<Size> keys{tiles.own[0] + mine * row_stride<Size>};
  const SharedRows<Size> values{tiles.own[1] + mine * row_stride<Size>};
  Sums<Size, Size> dk = {};
  Sums<Size, Size> dv = {};
  const auto factor = args.scale * log2_e;
  const auto last = own.head + args.group();
  uint32_t i = 0;
  for (auto head = own.head; head < last; ++head)
    for (auto first = start; first < args.length; first += columns, ++i) {
      const bool more = first + columns < args.length; // of this head
      if (more || head + 1 < last)
        fetch(i + 1, more ? head : head + 1, more ? first + columns : start);
      const auto& stage = tiles.stage[i % 2];
      for (uint32_t c = 0; c < columns; c += step) {
        if (args.causal && first + c + step <= begin + mine)
          continue; // none of these queries sees a key
        const auto* queries = stage.first + c * row_stride<Size>;
        const auto* gradients = stage.second + c * row_stride<Size>;
        Sums<Size, step> p;
        Sums<Size, step> ds;
        scores<Size, step>(p, keys, queries);
        scores<Size, step>(ds, values, gradients);
        hide_queries<Size>(p, args, begin + mine, first + c);
#pragma unroll
        for (uint32_t n = 0; n < step / 8; ++n)
#pragma unroll
          for (uint32_t e = 0; e < 4; ++e) {
            const auto kept = stage.kept[column_at(c, n, e)];
            const auto delta = stage.delta[column_at(c, n, e)];
#pragma unroll
            for (uint32_t m = 0; m < row_tiles<Size>; ++m) {
              p[m][n][e] = exp2_of(p[m][n][e] * factor - kept);
              ds[m][n][e] = p[m][n][e] * (ds[m][n][e] - delta);
            }
          }
        combine<Size, step>(dv, p, gradients);
        combine<Size, step>(dk, ds, queries);
      }
      await_stage();
    }
  auto* dx = static_cast<bfloat16*>(args.dx);
  store_rows<Size>(dx + own.x(1), args.stride(), begin + mine, args.length, dk,
                   RowValues<Size>{args.scale});
  store_rows<Size>(dx + own.x(2), args.stride(), begin + mine, args.length, dv,
                   RowValues<Size>{1});
}

template <uint32_t Size>
void launch(const AttentionArgs& args, bool backward, cudaStream_t stream) {
  constexpr auto bytes = sizeof(Tiles<Size>);
  dim3 grid(args.heads, args.rows,
            static_cast<uint32_t>(over(args.length, own_rows<Size>)));
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
  raise(tensor_query_kernel<Size>);
  tensor_query_kernel<Size><<<grid, threads, bytes, stream>>>(args);
  grid.x = args.key_heads;
  raise(tensor_key_kernel<Size>);
  tensor_key_kernel<Size><<<grid, threads, bytes, stream>>>(args);
}

void launch_for_head(const AttentionArgs& args, bool backward,
                     cudaStream_t stream) {
  if (args.head == 32)
    launch<32>(args, backward, stream);
  else if (args.head == 64)
    launch<64>(args, backward, stream);
  else
    launch<128>(args, backward, stream);
}

} // namespace

bool fits_tensor_cores(const AttentionArgs& args) {
  return args.half_x && args.half_y
         && (args.head == 32 || args.head == 64 || args.head == 128);
}

void tensor_attention_forward(const AttentionArgs& args, cudaStream_t stream) {
  launch_for_head(args, false, stream);
}

void tensor_attention_backward(const AttentionArgs& args, cudaStream_t stream) {
  launch_for_head(args, true, stream);
}

} // namespace troupe::kernels::cuda
