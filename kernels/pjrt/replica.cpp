#include "kernels/pjrt/replica.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/base/require.hpp"
#include "kernels/engine/parameter_gate.hpp"
#include "kernels/pjrt/passes.hpp"
#include "kernels/pjrt/plugin_file.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace troupe::kernels {

namespace {

using pjrt::DeviceTensors;

/// Parameters come from the host for each step, and gradients go there. What
/// the device has already is not sent again: several micro-batches of a step
/// read the same parameters. Several devices all compute the same, and have to
/// get the same bits.
class PjrtReplica final : public Replica {
public:
  PjrtReplica(const Graph& graph, DeviceId device, uint32_t max_rows,
              Precision precision)
    : passes_(graph, device, precision),
      max_rows_(max_rows),
      parameter_count_(static_cast<uint32_t>(graph.parameters.size())),
      sent_(passes_.layout().total) {}

  LeafStats gradient(const float* parameters, const Batch& batch,
                     float* gradient, const ParameterReady& ready) override {
    if (batch.gate != nullptr)
      batch.gate->await_all(); // they go to the device in one piece
    send(parameters, batch);
    std::vector<pjrt::Passes::Sent> sent;
    std::vector<const DeviceTensors*> parameters_of;
    for (uint32_t place = 0; place < passes_.places(); ++place) {
      sent.push_back(passes_.send_for_gradient(batch, place));
      parameters_of.push_back(&parameters_[place]);
    }
    const auto results = passes_.gradients(sent, parameters_of);
    const auto stats = passes_.stats_of(results.front());
    passes_.download(results.front().tensors, gradient);
    for (uint32_t place = 1; place < passes_.places(); ++place)
      passes_.check_equal(results[place].tensors, place, gradient,
                          "the gradient of");
    for (uint32_t i = 0; i < parameter_count_ && ready; ++i)
      ready(i); // all are here at once
    return stats;
  }

  LeafStats evaluate(const float* parameters, const Batch& batch,
                     const Predictions& predictions) override {
    send(parameters, batch);
    return passes_.evaluate(parameters_.front(), batch, predictions);
  }

  /// The plugin's own is not known.
  uint64_t memory_bytes() const override {
    return passes_.layout().total * sizeof(float);
  }

private:
  void send(const float* parameters, const Batch& batch) {
    require(batch.rows > 0 && batch.rows <= max_rows_,
            "rows of a batch outside [1, max_rows]");
    const auto bytes = passes_.layout().total * sizeof(float);
    if (!parameters_.empty()
        && std::memcmp(sent_.data(), parameters, bytes) == 0)
      return;
    parameters_.clear(); // the device may have no room for both
    for (uint32_t place = 0; place < passes_.places(); ++place)
      parameters_.push_back(passes_.upload(parameters, place));
    std::memcpy(sent_.data(), parameters, bytes);
  }

  pjrt::Passes passes_;
  uint32_t max_rows_;
  uint32_t parameter_count_;
  Buffer sent_;                           ///< what parameters_ has
  std::vector<DeviceTensors> parameters_; ///< by place
};

} // namespace

std::unique_ptr<Replica> make_pjrt_replica(const Graph& graph, DeviceId device,
                                           uint32_t max_rows,
                                           Precision precision) {
  return std::make_unique<PjrtReplica>(graph, device, max_rows, precision);
}

std::shared_ptr<void> open_pjrt_device(DeviceId device) {
  return pjrt::Client::of(*device.file);
}

std::string pjrt_numeric_class(DeviceId device, Precision precision) {
  const auto client = pjrt::Client::of(*device.file);
  // The version may have several lines.
  auto version = client->platform_version();
  std::ranges::replace(version, '\n', ' ');
  return "PJRT " + client->platform()
         + (precision == Precision::bfloat16 ? " bfloat16 (" : " float32 (")
         + version + ", "
         + pjrt::compiler_name(*device.file, client->platform()) + ')';
}

} // namespace troupe::kernels
