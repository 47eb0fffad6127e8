#pragma once

#include "kernels/cuda/context.cuh"
#include "kernels/engine/device.hpp"

#include <vector>

namespace troupe::kernels {

/// A GPU, or one of the virtual devices that share it.
class CudaDevice final : public Device {
public:
  CudaDevice(DeviceId device, Precision precision)
    : context_(device, precision) {}

  CudaContext& context() { return context_; }

  float* allocate(size_t count) override;
  void add(const float* from, float* to, size_t count) override;
  void copy(const float* from, float* to, size_t count) override;
  void upload(const void* from, void* to, size_t bytes) override;
  void download(const void* from, void* to, size_t bytes) override;
  std::unique_ptr<Operator> make_operator(const Graph& graph, size_t op,
                                          uint32_t max_rows) override;

private:
  CudaContext context_;
  std::vector<CudaArray<float>> memory_;
};

} // namespace troupe::kernels
