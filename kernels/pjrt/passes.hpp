#pragma once

#include "kernels/pjrt/client.hpp"
#include "kernels/stablehlo/lower_graph.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace troupe::kernels::pjrt {

/// A graph's parameters, or what has their shapes, on a device.
using DeviceTensors = std::vector<DeviceTensor>;

/// Runs a graph's passes on one device of a plugin: programs are written and
/// compiled for each number of rows that comes. Used by one thread at a time.
class Passes {
public:
  /// Errors: those of Client::of; InputError where the plugin has no such
  /// device, or the graph an operator that cannot be written as StableHLO.
  Passes(const Graph& graph, DeviceId device, Precision precision);

  const Graph& graph() const { return graph_; }
  const Layout& layout() const { return layout_; }

  /// From or to flat memory by layout().
  DeviceTensors upload(const float* flat);
  void download(const DeviceTensors& tensors, float* flat);

  /// What a pass left on the device, and what the host asks for of it.
  struct Result {
    LeafStats stats;
    DeviceTensors tensors; ///< the gradient of each parameter
  };
  Result gradient(const DeviceTensors& parameters, const Batch& batch);
  LeafStats evaluate(const DeviceTensors& parameters, const Batch& batch,
                     const Predictions& predictions);

  Client& client() { return *client_; }
  uint32_t device() const { return device_; }

private:
  enum class Kind : uint8_t { evaluation, gradient };
  struct Compiled {
    stablehlo::PassProgram pass;
    std::shared_ptr<const Executable> executable;
  };
  const Compiled& compiled(Kind kind, uint32_t rows);
  void check_ids(const Batch& batch) const;
  DeviceTensor field(stablehlo::BatchField field,
                     const stablehlo::TensorType& type, const Batch& batch);
  DeviceTensors run(const Compiled& pass, const Batch& batch,
                    const DeviceTensors& parameters);

  Graph graph_;
  Layout layout_;
  Precision precision_;
  std::shared_ptr<Client> client_;
  uint32_t device_;
  std::map<std::pair<Kind, uint32_t>, Compiled> compiled_;
};

} // namespace troupe::kernels::pjrt
