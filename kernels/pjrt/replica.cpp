#include "kernels/pjrt/replica.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/base/require.hpp"
#include "kernels/engine/parameter_gate.hpp"
#include "kernels/pjrt/passes.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace troupe::kernels {

namespace {

using pjrt::DeviceTensors;

/// Parameters come from the host for each step, and gradients go there. What
/// the device has already is not sent again: several micro-batches of a step
/// read the same parameters.
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
    sent.push_back(passes_.send_for_gradient(batch, 0));
    const auto results = passes_.gradients(sent, {&parameters_});
    const auto& result = results.front();
    const auto stats = passes_.stats_of(result);
    passes_.download(result.tensors, gradient);
    for (uint32_t i = 0; i < parameter_count_ && ready; ++i)
      ready(i); // all are here at once
    return stats;
  }

  LeafStats evaluate(const float* parameters, const Batch& batch,
                     const Predictions& predictions) override {
    send(parameters, batch);
    return passes_.evaluate(parameters_, batch, predictions);
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
    parameters_ = passes_.upload(parameters);
    std::memcpy(sent_.data(), parameters, bytes);
  }

  pjrt::Passes passes_;
  uint32_t max_rows_;
  uint32_t parameter_count_;
  Buffer sent_; ///< what parameters_ has
  DeviceTensors parameters_;
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
         + version + ')';
}

} // namespace troupe::kernels
