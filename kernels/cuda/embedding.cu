#include "kernels/base/error.hpp"
#include "kernels/cuda/operators.cuh"
#include "kernels/cuda/pack.cuh"

#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <bit>

namespace troupe::kernels {

namespace {

using namespace cuda;

struct TableArgs {
  const int32_t* ids;
  const float* weights; ///< of a bag; null: 1
  const float* table;
  float* y;
  const float* dy;
  float* gradient;    ///< of the table
  uint32_t ids_count; ///< of a sample
  uint32_t width;
  uint32_t vocabulary;
  bool bag;
  bool mean;

  __device__ bool present(int32_t id) const { return id >= 0; }
  /// A row of the table; an id beyond it is a bug that shows.
  __device__ float value(int32_t id, uint32_t c) const {
    return static_cast<uint32_t>(id) < vocabulary
             ? table[uint64_t{static_cast<uint32_t>(id)} * width + c]
             : NAN;
  }
  /// 1, or of a mean 1 / the number of present ids; of none: 0.
  __device__ float share(uint64_t row) const {
    if (!mean)
      return 1.0f;
    uint32_t count = 0;
    for (uint32_t i = 0; i < ids_count; ++i)
      count += present(ids[row * ids_count + i]);
    return count == 0 ? 0.0f : 1.0f / static_cast<float>(count);
  }
  __device__ float weight(uint64_t place) const {
    return weights == nullptr ? 1.0f : weights[place];
  }
};

template <uint32_t N>
struct Gather {
  TableArgs args;

  __device__ void operator()(uint64_t i) const {
    const auto packs = args.width / N;
    const auto id = args.ids[i / packs];
    const auto c = static_cast<uint32_t>(i % packs) * N;
    Values<N> row{};
    if (static_cast<uint32_t>(id) < args.vocabulary)
      row = load<N>(args.table
                    + uint64_t{static_cast<uint32_t>(id)} * args.width + c);
    else if (args.present(id))
      row[0] = args.value(id, c);
    store(row, args.y + i * N);
  }
};

struct GatherBag {
  TableArgs args;

  __device__ void operator()(uint64_t i) const {
    const auto row = i / args.width;
    const auto c = static_cast<uint32_t>(i % args.width);
    float sum = 0;
    for (auto k = row * args.ids_count; k < (row + 1) * args.ids_count; ++k)
      if (args.present(args.ids[k]))
        sum += args.weight(k) * args.value(args.ids[k], c);
    args.y[i] = args.mean ? args.share(row) * sum : sum;
  }
};

/// The gradient of a bag's weights: a thread takes one.
struct WeightsBack {
  TableArgs args;
  float* gradient;
  bool accumulate;

  __device__ void operator()(uint64_t k) const {
    const auto row = k / args.ids_count;
    const auto id = args.ids[k];
    float sum = 0;
    if (args.present(id))
      for (uint32_t c = 0; c < args.width; ++c)
        sum += args.dy[row * args.width + c] * args.value(id, c);
    sum *= args.share(row);
    gradient[k] = accumulate ? gradient[k] + sum : sum;
  }
};

struct Keys {
  const int32_t* ids;
  uint32_t* keys;
  uint32_t* places;

  __device__ void operator()(uint64_t k) const {
    keys[k] = static_cast<uint32_t>(ids[k] + 1); // 0: absent
    places[k] = static_cast<uint32_t>(k);
  }
};

// Sorted by id, places in their order. A block stands at each place; the one
// where an id begins adds up all of it: thread (x, lane) the places lane, lane
// + lanes, … of N columns, and the lanes' sums from the first to the last.
// Zeros are in the table's gradient before, or what is added to.
template <uint32_t N, bool Bag>
__global__ void __launch_bounds__(flat_threads)
  add_rows_kernel(const __grid_constant__ TableArgs args, const uint32_t* keys,
                  const uint32_t* places, uint64_t count) {
  constexpr uint32_t batch = 4; // places whose loads do not wait
  __shared__ __align__(16) float partial[flat_threads * N];
  const uint64_t begin = blockIdx.x;
  const auto key = keys[begin];
  if (key == 0 || key > args.vocabulary
      || (begin > 0 && keys[begin - 1] == key))
    return; // the whole block
  const auto c = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  Values<N> sum{};
  bool more = c < args.width;
  for (auto first = begin + threadIdx.y; more; first += batch * blockDim.y) {
    bool same[batch];
    uint64_t place[batch];
#pragma unroll
    for (uint32_t b = 0; b < batch; ++b) {
      const auto k = first + b * blockDim.y;
      const auto last = count - 1;
      same[b] = keys[k < last ? k : last] == key && k < count;
      place[b] = places[k < last ? k : last];
    }
    Values<N> d[batch];
#pragma unroll
    for (uint32_t b = 0; b < batch; ++b)
      if (same[b]) {
        auto row = place[b];
        if constexpr (Bag)
          row /= args.ids_count;
        d[b] = load<N>(args.dy + row * args.width + c);
      }
#pragma unroll
    for (uint32_t b = 0; b < batch; ++b)
      if (same[b]) {
        auto share = 1.0f;
        if constexpr (Bag)
          share = args.share(place[b] / args.ids_count) * args.weight(place[b]);
#pragma unroll
        for (uint32_t k = 0; k < N; ++k)
          sum[k] += share * d[b][k];
      }
    more = same[batch - 1];
  }
  const auto place_of = [&](uint32_t lane) {
    return partial + (lane * blockDim.x + threadIdx.x) * N;
  };
  store(sum, place_of(threadIdx.y));
  __syncthreads();
  if (threadIdx.y != 0 || c >= args.width)
    return;
  for (uint32_t lane = 1;
       lane < blockDim.y && begin + lane < count && keys[begin + lane] == key;
       ++lane) {
    const auto more_sums = load<N>(place_of(lane));
#pragma unroll
    for (uint32_t k = 0; k < N; ++k)
      sum[k] += more_sums[k];
  }
  give(sum, args.gradient + uint64_t{key - 1} * args.width + c, true);
}

/// Rows of a table, looked up or bagged.
class Embedding final : public CudaOperator {
public:
  explicit Embedding(const CudaOpSite& site)
    : CudaOperator(site), count_(site.max_rows * elements(site.input(0))) {
    const auto& table = site.graph.parameters[site.op().parameters[0]];
    args_.ids_count = static_cast<uint32_t>(elements(site.input(0)));
    args_.vocabulary = static_cast<uint32_t>(table.shape.at(0));
    args_.width = static_cast<uint32_t>(table.shape.at(1));
    args_.bag = site.op().kind == OpKind::embedding_bag;
    args_.mean = args_.bag && site.op().attributes.mode == BagMode::mean;
    weighted_ = args_.bag && site.op().inputs.size() > 1;
    bits_ = std::bit_width(args_.vocabulary);
    if (count_ >> 31 != 0)
      throw InputError(
        "operator " + name_ + ": micro-batches of " + std::to_string(count_)
        + " ids are more than the 2^31 - 1 that " + site.context.name()
        + " sorts; use more --virtual-ranks");
    check(sort(nullptr, count_, nullptr), context_.place(name_));
  }

  Needs needs() const override {
    Needs needs;
    needs.scratch = {0, 4 * padded() + (sort_bytes_ + 3) / 4};
    needs.backward_reads_inputs = weighted_ ? 3 : 1;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const auto table = arguments(args);
    if (table.bag)
      launch_each(uint64_t{args.rows} * table.width, GatherBag{table},
                  stream());
    else
      with_pack(table.width, [&]<uint32_t N>() {
        launch_each(uint64_t{args.rows} * table.ids_count * table.width / N,
                    Gather<N>{table}, stream());
      });
    launched();
  }

  void backward(const OpArgs& args) override {
    auto table = arguments(args);
    table.dy = args.output_gradient;
    table.gradient = args.parameter_gradients[0];
    const auto place = context_.place(name_);
    if (!args.accumulate_parameters[0])
      check(cudaMemsetAsync(table.gradient, 0,
                            uint64_t{table.vocabulary} * table.width
                              * sizeof(float),
                            stream()),
            place);
    const auto count = uint64_t{args.rows} * table.ids_count;
    auto* words = reinterpret_cast<uint32_t*>(args.scratch);
    launch_each(count, Keys{table.ids, words, words + padded()}, stream());
    launched();
    check(sort(words, count, words + 4 * padded()), place);
    with_pack(table.width, [&]<uint32_t N>() {
      const auto beside = std::min(flat_threads,
                                   std::bit_ceil(table.width / N));
      const dim3 grid(static_cast<uint32_t>(count),
                      static_cast<uint32_t>(over(table.width, beside * N)));
      const dim3 block(beside, flat_threads / beside);
      const auto* keys = words + 2 * padded();
      const auto* places = words + 3 * padded();
      if (table.bag)
        add_rows_kernel<N, true>
          <<<grid, block, 0, stream()>>>(table, keys, places, count);
      else
        add_rows_kernel<N, false>
          <<<grid, block, 0, stream()>>>(table, keys, places, count);
    });
    launched();
    if (weighted_ && args.input_gradients[1] != nullptr) {
      launch_each(count,
                  WeightsBack{table, args.input_gradients[1],
                              args.accumulate_inputs[1] != 0},
                  stream());
      launched();
    }
  }

private:
  uint64_t padded() const { return (count_ + 63) / 64 * 64; }

  TableArgs arguments(const OpArgs& args) const {
    auto table = args_;
    table.ids = args.ids(0);
    table.weights = weighted_ ? args.inputs[1] : nullptr;
    table.table = args.parameters[0];
    table.y = args.output;
    return table;
  }

  /// Sorts keys and places, which lie one after the other, into the two runs
  /// behind them; equal keys keep their order. Without memory: asks how much
  /// the sorting takes.
  cudaError_t sort(uint32_t* words, uint64_t count, void* memory) {
    return cub::DeviceRadixSort::SortPairs(
      memory, sort_bytes_, words,
      words == nullptr ? nullptr : words + 2 * padded(),
      words == nullptr ? nullptr : words + padded(),
      words == nullptr ? nullptr : words + 3 * padded(),
      static_cast<int>(count), 0, bits_, stream());
  }

  TableArgs args_{};
  uint64_t count_; ///< ids at most
  bool weighted_ = false;
  int bits_ = 1; ///< of a key
  size_t sort_bytes_ = 0;
};

} // namespace

OperatorPtr make_cuda_embedding(const CudaOpSite& site) {
  return std::make_unique<Embedding>(site);
}

} // namespace troupe::kernels
