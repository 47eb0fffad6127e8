#include "kernels/devices/sleeping_layers.hpp"

#include "kernels/base/require.hpp"
#include "kernels/devices/sleeping_replica.hpp"
#include "kernels/engine/parameter_gate.hpp"
#include "kernels/engine/slot_course.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::kernels {

namespace {

/// The system may wake a thread 50 us late, to wake several at once: not this
/// one.
void wait_for(std::chrono::milliseconds time) {
  prctl(PR_SET_TIMERSLACK, 1UL); // nanoseconds
  std::this_thread::sleep_for(time);
}

/// What layers do besides waiting. Each adds half the sum of the squares of its
/// parameters to the one number of a sample that goes from layer to layer, and
/// that number is the loss.
class LayerValues {
public:
  LayerValues(const Graph& graph, const SleepModel& sleep, OpRange ops,
              Layout layout, const StageOptions& options = {})
    : layout_(std::move(layout)), count_(sleep.parameters) {
    const auto layers = static_cast<uint32_t>(sleep.layers.size());
    for (auto op = ops.begin; op < std::min(ops.end, layers); ++op) {
      parameters_.push_back(graph.ops[op].parameters.front());
      ms_ += sleep.layers[op];
      if (options.recompute
          || (!options.layers.empty() && options.layers[op] != 0))
        again_ms_ += sleep.layers[op];
    }
  }

  /// Takes the layers' time so many times; `again`: and that of those that are
  /// computed again.
  void wait(uint32_t times, bool again = false) const {
    const auto ms = times * ms_ + (again ? again_ms_ : 0);
    if (ms > 0)
      wait_for(std::chrono::milliseconds{ms});
  }

  float add_to(float number, const float* parameters) const {
    for (auto parameter : parameters_) {
      const auto* at = parameters + layout_.offsets[parameter];
      float squares = 0;
      for (uint64_t i = 0; i < count_; ++i)
        squares += at[i] * at[i];
      number += squares / 2;
    }
    return number;
  }

  void gradient(const float* parameters, uint32_t rows, float* gradient,
                const ParameterReady& ready = {}) const {
    for (auto parameter : parameters_) {
      const auto offset = layout_.offsets[parameter];
      for (uint64_t i = offset; i < offset + count_; ++i)
        gradient[i] = static_cast<float>(rows) * parameters[i];
      if (ready)
        ready(parameter);
    }
  }

private:
  Layout layout_;
  uint64_t count_;
  uint64_t ms_ = 0;
  uint64_t again_ms_ = 0;
  std::vector<uint32_t> parameters_; ///< of the layers
};

class SleepingLayers final : public Replica {
public:
  SleepingLayers(const Graph& graph, const SleepModel& sleep)
    : labels_(graph.labels()),
      outputs_(graph.outputs()),
      values_(graph, sleep, {0, static_cast<uint32_t>(graph.ops.size())},
              Layout{graph}) {}

  LeafStats gradient(const float* parameters, const Batch& batch,
                     float* gradient, const ParameterReady& ready) override {
    if (batch.gate != nullptr)
      batch.gate->await_all(); // as SleepingReplica
    values_.wait(3);
    values_.gradient(parameters, batch.rows, gradient, ready);
    return stats(parameters, batch.rows);
  }

  LeafStats evaluate(const float* parameters, const Batch& batch,
                     const Predictions& predictions) override {
    predict_zeros(predictions, batch.rows * labels_, batch.rows * outputs_);
    return stats(parameters, batch.rows);
  }

  uint64_t memory_bytes() const override { return 0; }

private:
  LeafStats stats(const float* parameters, uint32_t rows) const {
    return {rows * double{values_.add_to(0, parameters)}, 0};
  }

  uint64_t labels_;
  uint64_t outputs_;
  LayerValues values_;
};

class SleepingStage final : public StageReplica {
public:
  SleepingStage(const Graph& graph, GraphPart part, const SleepModel& sleep,
                const StageOptions& options)
    : StageReplica(graph, std::move(part), options.recompute),
      graph_(graph),
      values_(graph_, sleep, part_.ops, layout_, options),
      slots_(options.in_flight) {}

  LeafStats forward(uint32_t slot, const float* parameters, const Batch& batch,
                    const float* in, float* out) override {
    auto& taken = slots_.at(slot);
    taken.course.forward();
    taken.parameters = parameters;
    taken.rows = batch.rows;
    values_.wait(1);
    const auto number = values_.add_to(part_.ops.begin == 0 ? 0 : in[0],
                                       parameters);
    if (part_.ops.end == graph_.ops.size())
      return {batch.rows * double{number}, 0};
    std::fill_n(out, forward_elements(graph_, part_.out, batch.rows), number);
    return {};
  }

  void backward(uint32_t slot, const float*, float* gradient,
                float* to_previous) override {
    slots_.at(slot).course.backward();
    values_.wait(2, true);
    give(slot, gradient);
    give_back(slot, to_previous);
  }

  void backward_inputs(uint32_t slot, const float*,
                       float* to_previous) override {
    slots_.at(slot).course.backward_inputs();
    values_.wait(1, true);
    give_back(slot, to_previous);
  }

  void backward_weights(uint32_t slot, float* gradient) override {
    slots_.at(slot).course.backward_weights();
    values_.wait(1);
    give(slot, gradient);
  }

  LeafStats go_on() override {
    require(false, "layers that wait have no slices to sum over");
    return {};
  }

  void move_parameters(uint32_t slot, const float* parameters) override {
    slots_.at(slot).parameters = parameters;
  }

  void abandon() override {
    for (auto& slot : slots_)
      slot.course.abandon();
  }

  uint64_t memory_bytes() const override { return 0; }

private:
  struct Slot {
    const float* parameters = nullptr;
    uint32_t rows = 0;
    SlotCourse course;
  };

  void give(uint32_t slot, float* gradient) const {
    values_.gradient(slots_[slot].parameters, slots_[slot].rows, gradient);
  }

  void give_back(uint32_t slot, float* to_previous) const {
    const auto count = backward_elements(graph_, part_.in, slots_[slot].rows);
    std::fill_n(to_previous, count, 0.0f);
  }

  Graph graph_;
  LayerValues values_;
  std::vector<Slot> slots_;
};

} // namespace

std::unique_ptr<Replica> make_sleeping_layers(const Graph& graph,
                                              const SleepModel& sleep) {
  return std::make_unique<SleepingLayers>(graph, sleep);
}

std::unique_ptr<StageReplica>
make_sleeping_stage(const Graph& graph, GraphPart part, const SleepModel& sleep,
                    const StageOptions& options) {
  return std::make_unique<SleepingStage>(graph, std::move(part), sleep,
                                         options);
}

} // namespace troupe::kernels
