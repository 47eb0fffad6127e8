#include "kernels/base/require.hpp"
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/operators.cuh"

#include <cub/device/device_radix_sort.cuh>

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

struct Gather {
  TableArgs args;

  __device__ void operator()(uint64_t i) const {
    const auto id = args.ids[i / args.width];
    args.y[i] = args.present(id)
                  ? args.value(id, static_cast<uint32_t>(i % args.width))
                  : 0.0f;
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

constexpr uint32_t lanes = 8;

// Sorted by id, places in their order. A block stands at each place; the one
// where an id begins adds up all of it, 32 columns at a time, its 8 lanes a
// place each. Zeros are in the table's gradient before, or what is added to.
__global__ void __launch_bounds__(warp* lanes)
  add_rows_kernel(const __grid_constant__ TableArgs args, const uint32_t* keys,
                  const uint32_t* places, uint64_t count) {
  __shared__ float partial[lanes][warp];
  const uint64_t begin = blockIdx.x;
  const auto key = keys[begin];
  if (key == 0 || key > args.vocabulary
      || (begin > 0 && keys[begin - 1] == key))
    return; // the whole block
  const auto c = blockIdx.y * warp + threadIdx.x;
  float sum = 0;
  for (auto k = begin + threadIdx.y; k < count && keys[k] == key; k += lanes) {
    const uint64_t place = places[k];
    if (c >= args.width)
      continue;
    if (args.bag) {
      const auto row = place / args.ids_count;
      sum += args.share(row) * args.weight(place)
             * args.dy[row * args.width + c];
    } else {
      sum += args.dy[place * args.width + c];
    }
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= args.width)
    return;
  for (uint32_t lane = 1; lane < lanes; ++lane)
    sum += partial[lane][threadIdx.x];
  args.gradient[uint64_t{key - 1} * args.width + c] += sum;
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
    require(count_ < (uint64_t{1} << 31), "ids of a micro-batch");
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
      launch_each(uint64_t{args.rows} * table.ids_count * table.width,
                  Gather{table}, stream());
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
    const dim3 grid(static_cast<uint32_t>(count),
                    static_cast<uint32_t>(over(table.width, warp)));
    add_rows_kernel<<<grid, dim3(warp, lanes), 0, stream()>>>(
      table, words + 2 * padded(), words + 3 * padded(), count);
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
