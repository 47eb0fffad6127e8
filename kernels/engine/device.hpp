#pragma once

#include "kernels/engine/operator.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/graph.hpp"

#include <cstddef>
#include <memory>

namespace troupe::kernels {

/// What the engine needs of a device besides its operators. CUDA: everything
/// goes to one stream, in order.
class Device {
public:
  virtual ~Device() = default;

  /// Memory of the device for float32 values, 64-byte aligned; lives as long
  /// as the device object.
  virtual float* allocate(size_t count) = 0;
  virtual void add(const float* from, float* to, size_t count) = 0;
  virtual void copy(const float* from, float* to, size_t count) = 0;
  /// Between the host's memory and the device's; done when the call returns.
  virtual void upload(const void* from, void* to, size_t bytes) = 0;
  virtual void download(const void* from, void* to, size_t bytes) = 0;

  /// Makes operator `op` of the graph for up to max_rows rows.
  /// Errors: InputError for what the device cannot compute, naming operator
  /// and device.
  virtual std::unique_ptr<Operator> make_operator(const Graph& graph, size_t op,
                                                  uint32_t max_rows) = 0;
};

/// Errors: InputError when the device is not there, or lacks the precision.
std::unique_ptr<Device> make_device(DeviceId device, Precision precision);

} // namespace troupe::kernels
