#include "kernels/cuda/loops.cuh"

namespace troupe::kernels::cuda {

namespace {

constexpr uint32_t warp = 32;
constexpr uint32_t lanes = 8;     ///< threads that share a column's rows
constexpr uint32_t row_warps = 4; ///< rows a block of softmax takes
constexpr uint32_t flat_threads = 256;
constexpr uint32_t max_blocks = 4096;

uint32_t blocks(uint64_t items, uint32_t each) {
  auto wanted = (items + each - 1) / each;
  return static_cast<uint32_t>(wanted < max_blocks ? wanted : max_blocks);
}

__global__ void bias_forward_kernel(float* y, const float* bias, uint64_t size,
                                    uint32_t columns, bool relu) {
  auto step = uint64_t{gridDim.x} * blockDim.x;
  for (auto i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size;
       i += step) {
    auto z = y[i] + bias[i % columns];
    y[i] = relu && z < 0 ? 0.0f : z;
  }
}

// A block takes 32 columns; thread (x, lane) the rows lane, lane + 8, … of
// column x. The 8 partial sums are added from the first to the last.
__global__ void bias_backward_kernel(float* d, const float* y,
                                     float* bias_gradient, uint32_t rows,
                                     uint32_t columns) {
  __shared__ float partial[lanes][warp];
  auto column = blockIdx.x * warp + threadIdx.x;
  float sum = 0;
  if (column < columns)
    for (auto row = threadIdx.y; row < rows; row += lanes) {
      auto at = uint64_t{row} * columns + column;
      auto x = d[at];
      if (y != nullptr) {
        x = y[at] <= 0 ? 0.0f : x;
        d[at] = x;
      }
      sum += x;
    }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns)
    return;
  for (uint32_t lane = 1; lane < lanes; ++lane)
    sum += partial[lane][threadIdx.x];
  bias_gradient[column] = sum;
}

struct Largest {
  float value;
  uint32_t column;
};

__device__ Largest larger(Largest a, Largest b) {
  if (a.value > b.value || (a.value == b.value && a.column < b.column))
    return a;
  return b.value > a.value || b.value == a.value ? b : a;
}

// A warp takes a row. Sums run in double, lane by lane and then along a fixed
// tree.
__global__ void softmax_kernel(const float* logits, const int32_t* labels,
                               float* gradient, LossRow* results, uint32_t rows,
                               uint32_t columns) {
  constexpr auto everyone = 0xffffffffu;
  auto lane = threadIdx.x;
  auto row = blockIdx.x * row_warps + threadIdx.y;
  if (row >= rows) // the whole warp leaves
    return;
  const auto* z = logits + uint64_t{row} * columns;
  Largest largest{z[0], 0};
  for (auto c = lane; c < columns; c += warp)
    largest = larger(largest, {z[c], c});
  for (auto apart = warp / 2; apart > 0; apart /= 2)
    largest = larger(largest,
                     {__shfl_xor_sync(everyone, largest.value, apart),
                      __shfl_xor_sync(everyone, largest.column, apart)});
  double sum = 0;
  for (auto c = lane; c < columns; c += warp)
    sum += static_cast<double>(expf(z[c] - largest.value));
  for (auto apart = warp / 2; apart > 0; apart /= 2)
    sum += __shfl_xor_sync(everyone, sum, apart);
  auto label = labels != nullptr ? labels[row] : -1;
  if (gradient != nullptr && labels != nullptr) {
    auto* to = gradient + uint64_t{row} * columns;
    auto divisor = static_cast<float>(sum);
    for (auto c = lane; c < columns; c += warp) {
      auto p = expf(z[c] - largest.value) / divisor;
      to[c] = c == static_cast<uint32_t>(label) ? p - 1.0f : p;
    }
  }
  if (lane == 0)
    results[row] = {label < 0 ? 0.0
                              : log(sum)
                                  + (static_cast<double>(largest.value)
                                     - static_cast<double>(z[label])),
                    static_cast<int32_t>(largest.column)};
}

} // namespace

cudaError_t bias_forward(float* y, const float* bias, uint32_t rows,
                         uint32_t columns, bool relu, cudaStream_t stream) {
  auto size = uint64_t{rows} * columns;
  bias_forward_kernel<<<blocks(size, flat_threads), flat_threads, 0, stream>>>(
    y, bias, size, columns, relu);
  return cudaGetLastError();
}

cudaError_t bias_backward(float* d, const float* y, float* bias_gradient,
                          uint32_t rows, uint32_t columns,
                          cudaStream_t stream) {
  bias_backward_kernel<<<(columns + warp - 1) / warp, dim3(warp, lanes), 0,
                         stream>>>(d, y, bias_gradient, rows, columns);
  return cudaGetLastError();
}

cudaError_t softmax_cross_entropy(const float* logits, const int32_t* labels,
                                  float* gradient, LossRow* results,
                                  uint32_t rows, uint32_t columns,
                                  cudaStream_t stream) {
  softmax_kernel<<<(rows + row_warps - 1) / row_warps, dim3(warp, row_warps), 0,
                   stream>>>(logits, labels, gradient, results, rows, columns);
  return cudaGetLastError();
}

} // namespace troupe::kernels::cuda
