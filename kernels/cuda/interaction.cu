#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/operators.cuh"

namespace troupe::kernels {

namespace {

using namespace cuda;

/// Vectors of one width, of each row.
struct Vectors {
  const float* x;
  uint32_t count;
  uint32_t width;

  __device__ const float* of(uint64_t row) const {
    return x + row * count * width;
  }
};

struct Interact {
  Vectors vectors;
  float* y;
  uint32_t pairs;

  __device__ void operator()(uint64_t at) const {
    const auto* x = vectors.of(at / pairs);
    auto pair = static_cast<uint32_t>(at % pairs);
    uint32_t i = 1;
    for (; pair >= i; ++i)
      pair -= i; // row i of the triangle has i pairs
    const auto* a = x + uint64_t{i} * vectors.width;
    const auto* b = x + uint64_t{pair} * vectors.width;
    float sum = 0;
    for (uint32_t c = 0; c < vectors.width; ++c)
      sum += a[c] * b[c];
    y[at] = sum;
  }
};

struct InteractBack {
  Vectors vectors;
  const float* dy;
  float* dx;
  bool accumulate;

  __device__ void operator()(uint64_t at) const {
    const auto size = uint64_t{vectors.count} * vectors.width;
    const auto row = at / size;
    const auto i = static_cast<uint32_t>(at % size / vectors.width);
    const auto c = static_cast<uint32_t>(at % vectors.width);
    const auto* x = vectors.of(row) + c;
    const auto n = vectors.count;
    const auto* d = dy + row * (uint64_t{n} * (n - 1) / 2);
    float sum = 0;
    for (uint32_t j = 0; j < i; ++j)
      sum += d[uint64_t{i} * (i - 1) / 2 + j] * x[uint64_t{j} * vectors.width];
    for (uint32_t j = i + 1; j < n; ++j)
      sum += d[uint64_t{j} * (j - 1) / 2 + i] * x[uint64_t{j} * vectors.width];
    dx[at] = accumulate ? dx[at] + sum : sum;
  }
};

/// A warp takes a row.
__global__ void __launch_bounds__(flat_threads)
  factorize_kernel(const Vectors vectors, float* y, uint64_t rows) {
  const auto row = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / warp;
  if (row >= rows)
    return;
  const auto* x = vectors.of(row);
  float part = 0;
  for (auto c = threadIdx.x % warp; c < vectors.width; c += warp) {
    float sum = 0;
    float squares = 0;
    for (uint32_t i = 0; i < vectors.count; ++i) {
      const auto v = x[uint64_t{i} * vectors.width + c];
      sum += v;
      squares += v * v;
    }
    part += sum * sum - squares;
  }
  part = warp_sum(part);
  if (threadIdx.x % warp == 0)
    y[row] = 0.5f * part;
}

/// A thread takes a column of a row.
struct FactorizeBack {
  Vectors vectors;
  const float* dy;
  float* dx;
  bool accumulate;

  __device__ void operator()(uint64_t at) const {
    const auto row = at / vectors.width;
    const auto c = at % vectors.width;
    const auto* x = vectors.of(row) + c;
    auto* to = dx + row * vectors.count * vectors.width + c;
    float sum = 0;
    for (uint32_t i = 0; i < vectors.count; ++i)
      sum += x[uint64_t{i} * vectors.width];
    for (uint32_t i = 0; i < vectors.count; ++i) {
      const auto k = uint64_t{i} * vectors.width;
      const auto g = dy[row] * (sum - x[k]);
      to[k] = accumulate ? to[k] + g : g;
    }
  }
};

class Interaction final : public CudaOperator {
public:
  explicit Interaction(const CudaOpSite& site)
    : CudaOperator(site),
      pairs_(site.op().kind == OpKind::interaction),
      count_(static_cast<uint32_t>(site.input(0).at(0))),
      width_(static_cast<uint32_t>(site.input(0).at(1))) {}

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 1;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const Vectors vectors{args.inputs[0], count_, width_};
    const auto pairs = count_ * (count_ - 1) / 2;
    if (pairs_)
      launch_each(uint64_t{args.rows} * pairs,
                  Interact{vectors, args.output, pairs}, stream());
    else
      factorize_kernel<<<static_cast<uint32_t>(
                           over(uint64_t{args.rows} * warp, flat_threads)),
                         flat_threads, 0, stream()>>>(vectors, args.output,
                                                      args.rows);
    launched();
  }

  void backward(const OpArgs& args) override {
    auto* dx = args.input_gradients[0];
    if (dx == nullptr)
      return;
    const Vectors vectors{args.inputs[0], count_, width_};
    const bool add = args.accumulate_inputs[0] != 0;
    if (pairs_)
      launch_each(uint64_t{args.rows} * count_ * width_,
                  InteractBack{vectors, args.output_gradient, dx, add},
                  stream());
    else
      launch_each(uint64_t{args.rows} * width_,
                  FactorizeBack{vectors, args.output_gradient, dx, add},
                  stream());
    launched();
  }

private:
  bool pairs_;
  uint32_t count_; ///< vectors of a sample
  uint32_t width_;
};

} // namespace

OperatorPtr make_cuda_interaction(const CudaOpSite& site) {
  return std::make_unique<Interaction>(site);
}

} // namespace troupe::kernels
