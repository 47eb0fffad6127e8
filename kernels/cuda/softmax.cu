#include "kernels/cuda/operators.cuh"
#include "kernels/cuda/rows.cuh"

namespace troupe::kernels {

namespace {

using namespace cuda;

__device__ float row_max(float x) {
  __shared__ float partial[warp];
  for (auto apart = warp / 2; apart > 0; apart /= 2)
    x = fmaxf(x, __shfl_xor_sync(everyone, x, apart));
  if (blockDim.x == warp)
    return x;
  if (threadIdx.x % warp == 0)
    partial[threadIdx.x / warp] = x;
  __syncthreads();
  for (uint32_t i = 0; i < blockDim.x / warp; ++i)
    x = fmaxf(x, partial[i]);
  return x;
}

// x and y may be the same.
__global__ void softmax_kernel(const float* x, float* y, uint64_t rows,
                               uint32_t columns) {
  const auto row = row_of();
  if (row >= rows)
    return;
  x += row * columns;
  y += row * columns;
  float largest = -INFINITY; // not x[0]: in place another lane writes that
  for (auto c = threadIdx.x; c < columns; c += blockDim.x)
    largest = fmaxf(largest, x[c]);
  largest = row_max(largest);
  double sum = 0;
  for (auto c = threadIdx.x; c < columns; c += blockDim.x)
    sum += static_cast<double>(expf(x[c] - largest));
  const auto divisor = static_cast<float>(row_sum(sum));
  for (auto c = threadIdx.x; c < columns; c += blockDim.x)
    y[c] = expf(x[c] - largest) / divisor;
}

// gradient and d may be the same.
__global__ void softmax_back_kernel(const float* y, const float* d,
                                    float* gradient, uint64_t rows,
                                    uint32_t columns, bool accumulate) {
  const auto row = row_of();
  if (row >= rows)
    return;
  y += row * columns;
  d += row * columns;
  gradient += row * columns;
  double sum = 0;
  for (auto c = threadIdx.x; c < columns; c += blockDim.x)
    sum += static_cast<double>(y[c]) * static_cast<double>(d[c]);
  const auto mean = static_cast<float>(row_sum(sum));
  for (auto c = threadIdx.x; c < columns; c += blockDim.x) {
    const auto g = y[c] * (d[c] - mean);
    gradient[c] = accumulate ? gradient[c] + g : g;
  }
}

class Softmax final : public CudaOperator {
public:
  explicit Softmax(const CudaOpSite& site)
    : CudaOperator(site),
      columns_(site.input(0).back()),
      repeats_(elements(site.input(0)) / columns_) {}

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_output = true;
    needs.in_place = true;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const auto rows = args.rows * repeats_;
    softmax_kernel<<<row_grid(rows, columns_), row_block(columns_), 0,
                     stream()>>>(args.inputs[0], args.output, rows,
                                 static_cast<uint32_t>(columns_));
    launched();
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] == nullptr)
      return;
    const auto rows = args.rows * repeats_;
    softmax_back_kernel<<<row_grid(rows, columns_), row_block(columns_), 0,
                          stream()>>>(args.output, args.output_gradient,
                                      args.input_gradients[0], rows,
                                      static_cast<uint32_t>(columns_),
                                      args.accumulate_inputs[0] != 0);
    launched();
  }

private:
  uint64_t columns_;
  uint64_t repeats_; ///< vectors of a sample
};

} // namespace

OperatorPtr make_cuda_softmax(const CudaOpSite& site) {
  return std::make_unique<Softmax>(site);
}

} // namespace troupe::kernels
