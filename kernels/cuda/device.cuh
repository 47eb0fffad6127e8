#pragma once

#include "kernels/cuda/context.cuh"
#include "kernels/engine/device.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace troupe::kernels {

/// A GPU, or one of the virtual devices that share it.
class CudaDevice final : public Device {
public:
  CudaDevice(DeviceId device, Precision precision)
    : CudaDevice(std::make_shared<CudaContext>(device, precision)) {}
  /// With a context that others have too, who do nothing meanwhile.
  explicit CudaDevice(std::shared_ptr<CudaContext> context)
    : context_(std::move(context)) {}

  CudaContext& context() { return *context_; }

  float* allocate(size_t count) override;
  void add(const float* from, float* to, size_t count) override;
  void copy(const float* from, float* to, size_t count) override;
  void upload(const void* from, void* to, size_t bytes) override;
  void download(const void* from, void* to, size_t bytes) override;
  std::unique_ptr<Operator> make_operator(const Graph& graph, size_t op,
                                          uint32_t max_rows) override;

private:
  std::shared_ptr<CudaContext> context_;
  std::vector<CudaArray<float>> memory_;
};

} // namespace troupe::kernels
