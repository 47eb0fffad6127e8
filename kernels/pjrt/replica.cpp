#include "kernels/pjrt/replica.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/base/require.hpp"
#include "kernels/cpu/vector_loops.hpp"
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
    const auto result = passes_.gradient(parameters_, batch);
    passes_.download(result.tensors, gradient);
    for (uint32_t i = 0; i < parameter_count_ && ready; ++i)
      ready(i); // all are here at once
    return result.stats;
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

/// All of a step on the device, in three programs: gradient, sum and update.
/// The latter two give the memory of what they change to what takes its place.
class PjrtResidentReplica final : public ResidentReplica {
public:
  PjrtResidentReplica(const Graph& graph, DeviceId device,
                      const OptimizerOptions& rule, uint32_t max_rows,
                      Precision precision)
    : passes_(graph, device, precision), max_rows_(max_rows), rule_(rule) {}

  void write(const float* parameters, const float* state,
             uint64_t stride) override {
    gradients_.clear();
    state_.clear();
    parameters_.clear();
    parameters_ = passes_.upload(parameters);
    for (uint32_t slot = 0; slot < state_slots(rule_.kind); ++slot)
      state_.push_back(passes_.upload(state + slot * stride));
  }

  void read(float* parameters, float* state, uint64_t stride) override {
    passes_.download(parameters_, parameters);
    for (size_t slot = 0; slot < state_.size(); ++slot)
      passes_.download(state_[slot], state + slot * stride);
  }

  void forget_gradients() override { gradients_.clear(); }

  LeafStats push_gradient(const Batch& batch) override {
    require(batch.rows > 0 && batch.rows <= max_rows_,
            "rows of a batch outside [1, max_rows]");
    auto result = passes_.gradient(parameters_, batch);
    gradients_.push_back(std::move(result.tensors));
    return result.stats;
  }

  void add_gradients() override {
    require(gradients_.size() >= 2, "two gradients to add");
    if (!addition_)
      addition_ = passes_.client().compile(
        stablehlo::addition_program(passes_.graph()), passes_.device());
    std::vector<const pjrt::DeviceTensor*> arguments;
    for (auto at = gradients_.end() - 2; at != gradients_.end(); ++at)
      for (const auto& tensor : *at)
        arguments.push_back(&tensor);
    auto sum = passes_.client().run(*addition_, arguments);
    gradients_.pop_back();
    gradients_.back() = std::move(sum);
  }

  bool pop_gradient(float* to) override {
    require(!gradients_.empty(), "a gradient to take");
    passes_.download(gradients_.back(), to);
    gradients_.pop_back();
    for (size_t i = 0; i < passes_.graph().parameters.size(); ++i)
      if (!all_finite(to + passes_.layout().offsets[i],
                      passes_.graph().parameters[i].size()))
        return false;
    return true;
  }

  void push_sum(const float* from) override {
    gradients_.push_back(passes_.upload(from));
  }

  bool update(const Update& update) override {
    require(gradients_.size() == 1, "an update by one gradient");
    auto& client = passes_.client();
    const auto numbers =
      stablehlo::update_numbers(rule_, update.number, update.learning_rate,
                                update.samples, update.clip_norm);
    const auto sent = client.upload(
      &numbers, {{stablehlo::update_number_count}}, passes_.device());
    std::vector<const pjrt::DeviceTensor*> arguments;
    const auto add = [&](const DeviceTensors& tensors) {
      for (const auto& tensor : tensors)
        arguments.push_back(&tensor);
    };
    add(parameters_);
    for (const auto& slot : state_)
      add(slot);
    add(gradients_.front());
    arguments.push_back(&sent);
    auto results = client.run(
      *program({update.clip_norm > 0, update.lazy_tables}), arguments);
    float spoiled = 0;
    client.download({{&results.back(), &spoiled}});
    auto from = results.begin();
    const auto take = [&](DeviceTensors& tensors) {
      for (auto& tensor : tensors)
        tensor = std::move(*from++);
    };
    take(parameters_);
    for (auto& slot : state_)
      take(slot);
    gradients_.clear();
    return spoiled == 0;
  }

private:
  /// Client::compile() keeps it.
  std::shared_ptr<const pjrt::Executable>
  program(stablehlo::UpdateShape shape) {
    auto& kept = updates_[shape.clips][shape.lazy_tables];
    if (!kept)
      kept = passes_.client().compile(stablehlo::update_program(passes_.graph(),
                                                                rule_, shape),
                                      passes_.device());
    return kept;
  }

  pjrt::Passes passes_;
  uint32_t max_rows_;
  OptimizerOptions rule_;
  std::shared_ptr<const pjrt::Executable> addition_;
  std::shared_ptr<const pjrt::Executable> updates_[2][2];
  DeviceTensors parameters_;
  std::vector<DeviceTensors> state_;
  std::vector<DeviceTensors> gradients_; ///< of the step in hand
};

} // namespace

std::unique_ptr<Replica> make_pjrt_replica(const Graph& graph, DeviceId device,
                                           uint32_t max_rows,
                                           Precision precision) {
  return std::make_unique<PjrtReplica>(graph, device, max_rows, precision);
}

std::unique_ptr<ResidentReplica>
make_pjrt_resident_replica(const Graph& graph, DeviceId device,
                           const OptimizerOptions& rule, uint32_t max_rows,
                           Precision precision) {
  return std::make_unique<PjrtResidentReplica>(graph, device, rule, max_rows,
                                               precision);
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
