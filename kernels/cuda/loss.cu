#include "kernels/base/require.hpp"
#include "kernels/cuda/operators.cuh"
#include "kernels/cuda/rows.cuh"

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
  const void* logits;
  const int32_t* labels;
  float2* kept; ///< largest logit and sum of exp(logit - largest) of each row
  LossRow* results;
  int32_t* classes; ///< null: not wanted
  void* gradient;
  bool accumulate;
  float share;
  uint64_t rows;
  uint32_t columns;
};

// Sums run in double, thread by thread and then along a fixed tree.
template <class T>
__global__ void softmax_loss_kernel(const SoftmaxArgs args) {
  const auto row = row_of();
  if (row >= args.rows) // whole warps leave, or whole blocks
    return;
  const auto* z = static_cast<const T*>(args.logits) + row * args.columns;
  Largest largest{value_of(z[0]), 0};
  for (auto c = threadIdx.x; c < args.columns; c += blockDim.x)
    largest = larger(largest, {value_of(z[c]), c});
  largest = row_largest(largest);
  double sum = 0;
  for (auto c = threadIdx.x; c < args.columns; c += blockDim.x)
    sum += static_cast<double>(expf(value_of(z[c]) - largest.value));
  sum = row_sum(sum);
  if (threadIdx.x != 0)
    return;
  args.kept[row] = {largest.value, static_cast<float>(sum)};
  if (args.classes != nullptr)
    args.classes[row] = static_cast<int32_t>(largest.column);
  if (args.labels == nullptr)
    return;
  const auto label = static_cast<uint32_t>(args.labels[row]);
  // A label outside of the classes is a bug that shows, not a stray read.
  const auto loss = label < args.columns
                      ? log(sum)
                          + (static_cast<double>(largest.value)
                             - static_cast<double>(value_of(z[label])))
                      : nan("");
  args.results[row] = {loss, static_cast<int32_t>(largest.column),
                       largest.column == label};
}

template <class T>
__global__ void softmax_gradient_kernel(const SoftmaxArgs args) {
  const auto row = row_of();
  if (row >= args.rows)
    return;
  const auto* z = static_cast<const T*>(args.logits) + row * args.columns;
  auto* to = static_cast<T*>(args.gradient) + row * args.columns;
  const auto kept = args.kept[row];
  const auto label = static_cast<uint32_t>(args.labels[row]);
  for (auto c = threadIdx.x; c < args.columns; c += blockDim.x) {
    auto p = expf(value_of(z[c]) - kept.x) / kept.y;
    if (c == label)
      p -= 1.0f;
    p *= args.share;
    to[c] = rounded<T>(args.accumulate ? value_of(to[c]) + p : p);
  }
}

/// One block adds up all rows, in an order fixed by their number.
__global__ void __launch_bounds__(1024)
  add_losses_kernel(const LossRow* results, uint64_t rows, double places,
                    LossTotals* totals) {
  double loss = 0;
  uint64_t correct = 0;
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
      half_(site.half_input(0)) {}

  Needs needs() const override {
    Needs needs;
    needs.saved = {2 * places_, 0};
    needs.scratch = {places_ * loss_row_elements, 0};
    needs.backward_reads_inputs = 1;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    auto softmax = arguments(args);
    softmax.results = reinterpret_cast<LossRow*>(args.scratch);
    softmax.classes = args.classes;
    const auto grid = row_grid(softmax.rows, classes_);
    const auto block = row_block(classes_);
    if (half_)
      softmax_loss_kernel<bfloat16><<<grid, block, 0, stream()>>>(softmax);
    else
      softmax_loss_kernel<float><<<grid, block, 0, stream()>>>(softmax);
    launched();
    if (args.labels == nullptr)
      return;
    add_losses_kernel<<<1, 1024, 0, stream()>>>(
      softmax.results, softmax.rows, static_cast<double>(places_), args.totals);
    launched();
  }

  void backward(const OpArgs& args) override {
    require(args.labels != nullptr, "a gradient without labels");
    if (args.input_gradients[0] == nullptr)
      return;
    auto softmax = arguments(args);
    softmax.gradient = args.input_gradients[0];
    softmax.accumulate = args.accumulate_inputs[0] != 0;
    softmax.share = 1.0f / static_cast<float>(places_);
    const auto grid = row_grid(softmax.rows, classes_);
    const auto block = row_block(classes_);
    if (half_)
      softmax_gradient_kernel<bfloat16><<<grid, block, 0, stream()>>>(softmax);
    else
      softmax_gradient_kernel<float><<<grid, block, 0, stream()>>>(softmax);
    launched();
  }

private:
  SoftmaxArgs arguments(const OpArgs& args) const {
    SoftmaxArgs softmax{};
    softmax.logits = args.inputs[0];
    softmax.labels = args.labels;
    softmax.kept = reinterpret_cast<float2*>(args.saved);
    softmax.rows = args.rows * places_;
    softmax.columns = static_cast<uint32_t>(classes_);
    return softmax;
  }

  uint64_t classes_;
  uint64_t places_; ///< labels of a sample
  bool half_;
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
