#include "kernels/base/require.hpp"
#include "kernels/cuda/operators.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/rows.cuh"

#include <cfloat>
#include <cmath>

namespace troupe::kernels {

namespace {

using namespace cuda;

/// What a row of logits leaves.
struct LossRow {
  double loss;  ///< nats
  int32_t best; ///< first class that has the largest logit
  int32_t hit;
};
constexpr uint64_t loss_row_elements = sizeof(LossRow) / sizeof(float);

struct Largest {
  float value;
  uint32_t column;
};

__device__ Largest larger(Largest a, Largest b) {
  if (a.value > b.value || (a.value == b.value && a.column < b.column))
    return a;
  return b.value > a.value || b.value == a.value ? b : a;
}

__device__ Largest row_largest(Largest x) {
  __shared__ Largest partial[warp];
  for (auto apart = warp / 2; apart > 0; apart /= 2)
    x = larger(x, {__shfl_xor_sync(everyone, x.value, apart),
                   __shfl_xor_sync(everyone, x.column, apart)});
  if (blockDim.x == warp)
    return x;
  if (threadIdx.x % warp == 0)
    partial[threadIdx.x / warp] = x;
  __syncthreads();
  x = partial[0];
  for (uint32_t i = 1; i < blockDim.x / warp; ++i)
    x = larger(x, partial[i]);
  return x;
}

struct SoftmaxArgs {
  const void* logits; ///< [rows, columns]
  const int32_t* labels;
  float2* kept; ///< largest logit and sum of exp(logit - largest) of each row
  LossRow* results;
  int32_t* classes; ///< null: not wanted
  void* gradient;
  bool accumulate;
  float share;
  uint64_t rows;
  uint32_t columns;

  template <class T>
  __device__ const T* logits_of(uint64_t row) const {
    return static_cast<const T*>(logits) + row * columns;
  }
};

constexpr uint32_t long_row_threads = 512;

// Gives what a row leaves, and returns what args.kept is to hold. One pass over
// z, the row or a copy: what was summed is scaled when a larger logit comes.
// Eight terms are added in float32, such sums in double, thread by thread and
// then along a fixed tree.
template <class T, uint32_t N>
__device__ float2 give_loss(const SoftmaxArgs& args, uint64_t row, const T* z) {
  Largest largest{-FLT_MAX, threadIdx.x * N}; // its pack's first column
  double sum = 0;                             // of exp(logit - largest)
#pragma unroll 4
  for (auto c = threadIdx.x * N; c < args.columns; c += blockDim.x * N) {
    const auto x = load<N>(z + c);
    auto most = x[0];
#pragma unroll
    for (uint32_t k = 1; k < N; ++k)
      most = fmaxf(most, x[k]);
    if (most > largest.value) {
      sum *= static_cast<double>(exp_of(largest.value - most));
      largest = {most, c};
    }
    float terms = 0;
#pragma unroll
    for (uint32_t k = 0; k < N; ++k)
      terms += exp_of(x[k] - largest.value);
    sum += static_cast<double>(terms);
  }
  const auto own = largest.value;
  largest = row_largest(largest);
  sum = row_sum(sum * static_cast<double>(exp_of(own - largest.value)));
  const float2 kept{largest.value, static_cast<float>(sum)};
  if (threadIdx.x != 0)
    return kept;
  const auto* logits = args.logits_of<T>(row);
  const auto pack = load<N>(logits + largest.column);
  const auto first = largest.column;
#pragma unroll
  for (uint32_t k = N; k-- > 0;)
    if (pack[k] == largest.value)
      largest.column = first + k;
  if (args.classes != nullptr)
    args.classes[row] = static_cast<int32_t>(largest.column);
  if (args.labels == nullptr)
    return kept;
  const auto label = static_cast<uint32_t>(args.labels[row]);
  // A label outside of the classes is a bug that shows, not a stray read.
  const auto loss = label < args.columns
                      ? log(sum)
                          + (static_cast<double>(largest.value)
                             - static_cast<double>(value_of(logits[label])))
                      : nan("");
  args.results[row] = {loss, static_cast<int32_t>(largest.column),
                       largest.column == label};
  return kept;
}

template <class T, uint32_t N>
__device__ void
give_gradient(const SoftmaxArgs& args, uint64_t row, const T* z, float2 kept) {
  auto* to = static_cast<T*>(args.gradient) + row * args.columns;
  const auto label = static_cast<uint32_t>(args.labels[row]);
  const auto scale = args.share / kept.y;
  for (auto c = threadIdx.x * N; c < args.columns; c += blockDim.x * N) {
    auto x = load<N>(z + c);
#pragma unroll
    for (uint32_t k = 0; k < N; ++k)
      x[k] = exp_of(x[k] - kept.x) * scale;
    if (label - c < N)
#pragma unroll
      for (uint32_t k = 0; k < N; ++k)
        x[k] -= c + k == label ? args.share : 0.0f;
    give(x, to + c, args.accumulate);
  }
}

template <class T, uint32_t N>
__global__ void __launch_bounds__(long_row_threads)
  softmax_loss_kernel(const __grid_constant__ SoftmaxArgs args) {
  const auto row = row_of();
  if (row >= args.rows) // whole warps leave, or whole blocks
    return;
  const auto kept = give_loss<T, N>(args, row, args.logits_of<T>(row));
  if (threadIdx.x == 0)
    args.kept[row] = kept;
}

template <class T, uint32_t N>
__global__ void __launch_bounds__(long_row_threads)
  softmax_gradient_kernel(const __grid_constant__ SoftmaxArgs args) {
  if (row_of() >= args.rows)
    return;
  const auto row = args.rows - 1 - row_of(); // the last are in the cache yet
  give_gradient<T, N>(args, row, args.logits_of<T>(row), args.kept[row]);
}

// Both. Short rows are read twice, the second time from the cache; a long one
// is copied to shared memory, where each thread reads what it copied.
template <class T, uint32_t N, bool Staged>
__global__ void __launch_bounds__(long_row_threads)
  softmax_both_kernel(const __grid_constant__ SoftmaxArgs args) {
  extern __shared__ __align__(16) uint8_t staged[];
  const auto row = row_of();
  if (row >= args.rows)
    return;
  const auto* z = args.logits_of<T>(row);
  if constexpr (Staged) {
    using Pack = Words<uint32_t, N * sizeof(T) / sizeof(uint32_t)>;
    const auto* from = reinterpret_cast<const Pack*>(z);
    auto* to = reinterpret_cast<Pack*>(staged);
    const auto packs = args.columns / N;
#pragma unroll 8
    for (auto p = threadIdx.x; p < packs; p += long_row_threads)
      to[p] = from[p];
    z = reinterpret_cast<const T*>(staged);
  }
  const auto kept = give_loss<T, N>(args, row, z);
  give_gradient<T, N>(args, row, z, kept);
}

/// One block adds up all rows, in an order fixed by their number.
__global__ void __launch_bounds__(1024)
  add_losses_kernel(const LossRow* results, uint64_t rows, double places,
                    LossTotals* totals) {
  double loss = 0;
  uint64_t correct = 0;
#pragma unroll 4
  for (uint64_t i = threadIdx.x; i < rows; i += blockDim.x) {
    loss += results[i].loss;
    correct += results[i].hit != 0;
  }
  loss = block_sum(loss);
  correct = block_sum(static_cast<unsigned long long>(correct));
  if (threadIdx.x == 0) {
    totals->loss = loss / places;
    totals->correct = correct;
  }
}

/// Mean over the places of a sample that have a label, summed over the rows.
class SoftmaxCrossEntropy final : public CudaOperator {
public:
  explicit SoftmaxCrossEntropy(const CudaOpSite& site)
    : CudaOperator(site),
      classes_(site.input(0).back()),
      places_(elements(site.input(0)) / classes_),
      half_(site.half_input(0)) {
    if (row_threads(classes_) == warp)
      return;
    block_ = {long_row_threads, 1};
    staged_bytes_ = classes_ * (half_ ? sizeof(bfloat16) : sizeof(float));
    int most = 0;
    const auto place = context_.place(name_);
    check(cudaDeviceGetAttribute(&most,
                                 cudaDevAttrMaxSharedMemoryPerMultiprocessor,
                                 static_cast<int>(context_.index())),
          place);
    // Two blocks beside each other: one reads while the other writes. The
    // kernel's limit is one for all models of the process.
    const auto max_staged = most / 2 - 2048;
    gives_both_ = classes_ % 8 == 0
                  && staged_bytes_ <= static_cast<uint64_t>(max_staged);
    if (gives_both_)
      check(half_ ? allow_staged<bfloat16>(max_staged)
                  : allow_staged<float>(max_staged),
            place);
  }

  Needs needs() const override {
    Needs needs;
    needs.saved = {2 * places_, 0};
    needs.scratch = {places_ * loss_row_elements, 0};
    needs.backward_reads_inputs = 1;
    needs.accumulates = true;
    needs.backward_gives_loss = gives_both_;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const auto softmax = arguments(args);
    with_row_type([&]<class T, uint32_t N>() {
      softmax_loss_kernel<T, N>
        <<<grid(softmax), block_, 0, stream()>>>(softmax);
    });
    launched();
    if (args.labels != nullptr)
      add_losses(args, softmax);
  }

  void backward(const OpArgs& args) override {
    require(args.labels != nullptr, "a gradient without labels");
    if (args.input_gradients[0] == nullptr)
      return;
    auto softmax = arguments(args);
    softmax.gradient = args.input_gradients[0];
    softmax.accumulate = args.accumulate_inputs[0] != 0;
    softmax.share = 1.0f / static_cast<float>(places_);
    with_row_type([&]<class T, uint32_t N>() {
      if (!gives_both_)
        softmax_gradient_kernel<T, N>
          <<<grid(softmax), block_, 0, stream()>>>(softmax);
      else if (staged_bytes_ == 0)
        softmax_both_kernel<T, N, false>
          <<<grid(softmax), block_, 0, stream()>>>(softmax);
      else if constexpr (N == 8)
        softmax_both_kernel<T, N, true>
          <<<grid(softmax), block_, staged_bytes_, stream()>>>(softmax);
    });
    launched();
    if (gives_both_)
      add_losses(args, softmax);
  }

private:
  SoftmaxArgs arguments(const OpArgs& args) const {
    SoftmaxArgs softmax{};
    softmax.logits = args.inputs[0];
    softmax.labels = args.labels;
    softmax.kept = reinterpret_cast<float2*>(args.saved);
    softmax.results = reinterpret_cast<LossRow*>(args.scratch);
    softmax.classes = args.classes;
    softmax.rows = args.rows * places_;
    softmax.columns = static_cast<uint32_t>(classes_);
    return softmax;
  }

  uint32_t grid(const SoftmaxArgs& softmax) const {
    return static_cast<uint32_t>(over(softmax.rows, block_.y));
  }

  template <class F>
  void with_row_type(const F& f) {
    with_pack(classes_, [&]<uint32_t N>() {
      half_ ? f.template operator()<bfloat16, N>()
            : f.template operator()<float, N>();
    });
  }

  template <class T>
  static cudaError_t allow_staged(int bytes) {
    return cudaFuncSetAttribute(softmax_both_kernel<T, 8, true>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                bytes);
  }

  void add_losses(const OpArgs& args, const SoftmaxArgs& softmax) {
    add_losses_kernel<<<1, 1024, 0, stream()>>>(
      softmax.results, softmax.rows, static_cast<double>(places_), args.totals);
    launched();
  }

  uint64_t classes_;
  uint64_t places_; ///< labels of a sample
  bool half_;
  dim3 block_ = row_block(1); ///< threads and rows
  uint64_t staged_bytes_ = 0; ///< a long row in shared memory
  bool gives_both_ = true;    ///< the backward pass: loss and gradient
};

struct PlainLossArgs {
  const float* x;
  const int32_t* labels; ///< of sigmoid
  const float* targets;  ///< of squared error
  int32_t* classes;
  LossTotals* totals;
  bool sigmoid;
  uint64_t count;
  double places;
};

/// One block takes all.
__global__ void __launch_bounds__(1024)
  plain_loss_kernel(const PlainLossArgs args) {
  double loss = 0;
  unsigned long long correct = 0;
  for (uint64_t i = threadIdx.x; i < args.count; i += blockDim.x) {
    const double z = args.x[i];
    if (args.classes != nullptr)
      args.classes[i] = args.sigmoid && z > 0;
    if (args.sigmoid && args.labels != nullptr) {
      const bool one = args.labels[i] != 0;
      const auto away = one ? -z : z; // the loss is log(1 + exp(away))
      loss += (away > 0 ? away : 0.0) + log1p(exp(-fabs(z)));
      correct += one == (z > 0);
    }
    if (!args.sigmoid && args.targets != nullptr) {
      const auto off = z - static_cast<double>(args.targets[i]);
      loss += off * off;
    }
  }
  loss = block_sum(loss);
  correct = block_sum(correct);
  if (threadIdx.x == 0 && (args.labels != nullptr || args.targets != nullptr)) {
    args.totals->loss = loss / args.places;
    args.totals->correct = correct;
  }
}

struct PlainGradient {
  const float* x;
  const int32_t* labels;
  const float* targets;
  float* gradient;
  float share;
  bool sigmoid;
  bool accumulate;

  __device__ void operator()(uint64_t i) const {
    auto g = sigmoid ? activate(Activation::sigmoid, x[i])
                         - (labels[i] != 0 ? 1.0f : 0.0f)
                     : 2.0f * (x[i] - targets[i]);
    g *= share;
    gradient[i] = accumulate ? gradient[i] + g : g;
  }
};

/// Sigmoid cross-entropy and mean squared error: a term for each element.
class PlainLoss final : public CudaOperator {
public:
  explicit PlainLoss(const CudaOpSite& site)
    : CudaOperator(site),
      sigmoid_(site.op().kind == OpKind::sigmoid_cross_entropy),
      places_(elements(site.input(0))) {}

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 1;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    PlainLossArgs loss{};
    loss.x = args.inputs[0];
    loss.labels = sigmoid_ ? args.labels : nullptr;
    loss.targets = sigmoid_ ? nullptr : args.targets;
    loss.classes = args.classes;
    loss.totals = args.totals;
    loss.sigmoid = sigmoid_;
    loss.count = args.rows * places_;
    loss.places = static_cast<double>(places_);
    plain_loss_kernel<<<1, 1024, 0, stream()>>>(loss);
    launched();
  }

  void backward(const OpArgs& args) override {
    require(sigmoid_ ? args.labels != nullptr : args.targets != nullptr,
            "a gradient without labels");
    if (args.input_gradients[0] == nullptr)
      return;
    launch_each(args.rows * places_,
                PlainGradient{args.inputs[0], args.labels, args.targets,
                              args.input_gradients[0],
                              1.0f / static_cast<float>(places_), sigmoid_,
                              args.accumulate_inputs[0] != 0},
                stream());
    launched();
  }

private:
  bool sigmoid_;
  uint64_t places_;
};

} // namespace

OperatorPtr make_cuda_loss(const CudaOpSite& site) {
  if (site.op().kind == OpKind::softmax_cross_entropy)
    return std::make_unique<SoftmaxCrossEntropy>(site);
  return std::make_unique<PlainLoss>(site);
}

} // namespace troupe::kernels
