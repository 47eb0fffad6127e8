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

  /// Whoever calls changes values of graphs in float32: none is to be kept in
  /// bfloat16. Before operators are made.
  void keep_whole(std::vector<uint32_t> values) { whole_ = std::move(values); }
  /// half_values() of a graph, without those.
  std::vector<uint8_t> half_of(const Graph& graph) const;

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
  std::vector<uint32_t> whole_;
};

} // namespace troupe::kernels
