#pragma once

#include "kernels/pjrt/client.hpp"
#include "kernels/stablehlo/lower_graph.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::kernels::pjrt {

/// A graph's parameters, or what has their shapes, on a device.
using DeviceTensors = std::vector<DeviceTensor>;

void add(Arguments& arguments, const DeviceTensors& tensors);

/// Runs a graph's passes on devices of a plugin, each in its place: programs
/// are written and compiled for each number of rows that comes. Used by one
/// thread at a time.
class Passes {
public:
  /// Errors: those of Client::of; InputError where the plugin has no such
  /// devices, or the graph an operator that cannot be written as StableHLO.
  Passes(const Graph& graph, DeviceId device, Precision precision);

  const Graph& graph() const { return graph_; }
  const Layout& layout() const { return layout_; }
  std::string name(uint32_t place) const; ///< of a device: pjrt:libtpu.so:1
  uint32_t places() const { return static_cast<uint32_t>(devices_.size()); }

  /// From or to flat memory by layout().
  DeviceTensors upload(const float* flat, uint32_t place = 0);
  DeviceTensor upload(const void* data, const stablehlo::TensorType& type,
                      uint32_t place);
  void download(const DeviceTensors& tensors, float* flat);
  /// Errors: std::runtime_error where a device has other bits than the first
  /// one, which are here; `what` they are, before a parameter's name.
  void check_equal(const DeviceTensors& tensors, uint32_t place,
                   const float* flat, const char* what);
  float download(const DeviceTensor& one); ///< that has one element

  /// A micro-batch in a device's memory.
  struct Sent {
    uint32_t place = 0;
    uint32_t rows = 0;
    DeviceTensors fields;
  };
  /// `batch` may be changed when the call returns.
  /// Errors: InputError for an id that a table does not have.
  Sent send_for_gradient(const Batch& batch, uint32_t place);

  /// What a pass leaves on its device.
  struct Gradient {
    uint32_t rows = 0;
    DeviceTensors stats;   ///< for stats_of()
    DeviceTensors tensors; ///< of each parameter
  };
  /// Begins passes with the same number of rows, in different places; where all
  /// places have one they are replicas of one program. Shapes: parameters of
  /// each pass.
  std::vector<Gradient>
  gradients(const std::vector<Sent>& batches,
            const std::vector<const DeviceTensors*>& parameters);
  /// Waits for the pass.
  LeafStats stats_of(const Gradient& gradient);
  LeafStats evaluate(const DeviceTensors& parameters, const Batch& batch,
                     const Predictions& predictions);

  /// A program that runs in some places, compiled where it is first needed.
  class Everywhere {
  public:
    explicit Everywhere(stablehlo::Program program)
      : program_(std::move(program)) {}

  private:
    friend Passes;
    stablehlo::Program program_;
    std::map<std::vector<uint32_t>, std::shared_ptr<const Executable>> made_;
  };
  /// Runs it in each place, which are in order: in all of them as replicas of
  /// one program, which it has to be for one that speaks of replicas; else by
  /// itself. Returns each one's results.
  std::vector<DeviceTensors> run(Everywhere& program,
                                 const std::vector<uint32_t>& places,
                                 const std::vector<Arguments>& arguments);

private:
  enum class Kind : uint8_t { evaluation, gradient };
  struct Pass {
    Everywhere program;
    std::vector<stablehlo::BatchField> batch; ///< arguments behind parameters
    bool counts;
  };
  Pass& pass(Kind kind, uint32_t rows);
  void check_ids(const Batch& batch) const;
  DeviceTensor field(stablehlo::BatchField field,
                     const stablehlo::TensorType& type, const Batch& batch,
                     uint32_t place);
  Sent send(const Pass& pass, const Batch& batch, uint32_t place);

  Graph graph_;
  Layout layout_;
  Precision precision_;
  std::shared_ptr<Client> client_;
  std::vector<uint32_t> devices_; ///< by place
  std::map<std::pair<Kind, uint32_t>, Pass> passes_;
};

} // namespace troupe::kernels::pjrt
