#include "kernels/cuda/device.cuh"
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/operators.cuh"
#include "kernels/cuda/replica.hpp"

namespace troupe::kernels {

namespace {

struct AddTo {
  const float* from;
  float* to;

  __device__ void operator()(uint64_t i) const { to[i] = from[i] + to[i]; }
};

} // namespace

float* CudaDevice::allocate(size_t count) {
  const CurrentDevice current(context_->index());
  memory_.emplace_back(CudaArray<float>::Where::device, count,
                       context_->place("buffers of a pass"));
  return memory_.back().data();
}

void CudaDevice::add(const float* from, float* to, size_t count) {
  cuda::launch_each(count, AddTo{from, to}, context_->stream());
  check(cudaGetLastError(), context_->place("adding gradients"));
}

void CudaDevice::copy(const float* from, float* to, size_t count) {
  check(cudaMemcpyAsync(to, from, count * sizeof(float),
                        cudaMemcpyDeviceToDevice, context_->stream()),
        context_->place("copying a gradient"));
}

void CudaDevice::upload(const void* from, void* to, size_t bytes) {
  const CurrentDevice current(context_->index());
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice,
                        context_->stream()),
        context_->place("upload"));
  context_->synchronize("upload");
}

void CudaDevice::download(const void* from, void* to, size_t bytes) {
  const CurrentDevice current(context_->index());
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost,
                        context_->stream()),
        context_->place("download"));
  context_->synchronize("download");
}

std::unique_ptr<Operator>
CudaDevice::make_operator(const Graph& graph, size_t op, uint32_t max_rows) {
  const CurrentDevice current(context_->index());
  const auto half = half_values(graph, context_->precision());
  return make_cuda_operator({graph, op, max_rows, *context_, half});
}

std::unique_ptr<Device> make_cuda_device(DeviceId device, Precision precision) {
  return std::make_unique<CudaDevice>(device, precision);
}

} // namespace troupe::kernels
