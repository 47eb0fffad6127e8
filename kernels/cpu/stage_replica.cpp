#include "kernels/cpu/stage_replica.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/base/require.hpp"
#include "kernels/cpu/device.hpp"
#include "kernels/cpu/pass.hpp"

#include <algorithm>

namespace troupe::kernels {

namespace {

/// Each slot has operators of its own, since some keep what they found of an
/// input until its backward pass.
class CpuStageReplica final : public StageReplica {
public:
  CpuStageReplica(const Graph& graph, GraphPart part,
                  const StageOptions& options)
    : StageReplica(graph, std::move(part)),
      graph_(graph),
      device_(make_cpu_device(options.precision)),
      slots_(options.in_flight),
      early_layout_(graph, {}) {
    require(options.in_flight > 0, "a stage for no micro-batch");
    for (auto& slot : slots_)
      slot.engine = std::make_unique<Engine>(
        graph_, part_, *device_, options.max_rows, options.in_halves);
    if (!options.in_halves)
      return;
    early_layout_ = Layout{graph_, slots_.front().engine->halves().early};
    for (auto& slot : slots_)
      slot.early = Buffer{std::max<size_t>(1, early_layout_.total)};
  }

  LeafStats forward(uint32_t at, const float* parameters, const Batch& batch,
                    const float* in, float* out) override {
    auto& slot = slots_.at(at);
    require(slot.holds == Holds::nothing,
            "a micro-batch in a slot that is taken");
    slot.holds = Holds::forward;
    slot.batch = batch;
    slot.pass = cpu_pass(parameters, slot.batch);
    slot.pass.training = true;
    slot.totals = {};
    slot.pass.totals = &slot.totals;
    take_values(*slot.engine, in, batch.rows);
    slot.engine->forward(slot.pass);
    give_values(*slot.engine, in, out, batch.rows);
    return {slot.totals.loss, slot.totals.correct};
  }

  void backward(uint32_t at, const float* from_next, float* gradient,
                float* to_previous) override {
    auto& slot = next_pass(at, Holds::forward, Holds::nothing);
    const auto rows = slot.batch.rows;
    take_gradients(*slot.engine, from_next, rows, gradient, layout_);
    slot.engine->backward(slot.pass, gradient);
    give_gradients(*slot.engine, from_next, rows, gradient, layout_,
                   to_previous);
  }

  void backward_inputs(uint32_t at, const float* from_next,
                       float* to_previous) override {
    auto& slot = next_pass(at, Holds::forward, Holds::weights);
    const auto rows = slot.batch.rows;
    auto* early = slot.early.data();
    take_gradients(*slot.engine, from_next, rows, early, early_layout_);
    slot.engine->backward_inputs(slot.pass, early);
    give_gradients(*slot.engine, from_next, rows, early, early_layout_,
                   to_previous);
  }

  void backward_weights(uint32_t at, float* gradient) override {
    auto& slot = next_pass(at, Holds::weights, Holds::nothing);
    for (auto parameter : slot.engine->halves().early)
      std::copy_n(slot.early.data() + early_layout_.offsets[parameter],
                  graph_.parameters[parameter].size(),
                  gradient + layout_.offsets[parameter]);
    slot.engine->backward_weights(slot.pass, gradient);
  }

  void abandon() override {
    for (auto& slot : slots_)
      slot.holds = Holds::nothing;
  }

  uint64_t memory_bytes() const override {
    return slots_.size()
           * (slots_.front().engine->memory().total + early_layout_.total)
           * sizeof(float);
  }

private:
  /// What a slot keeps a micro-batch for.
  enum class Holds : uint8_t {
    nothing,
    forward, ///< it will come back
    weights, ///< it came back, for inputs
  };

  struct Slot {
    std::unique_ptr<Engine> engine;
    Batch batch;
    Engine::Pass pass;
    LossTotals totals;
    Buffer early; ///< between the halves; flat by early_layout_
    Holds holds = Holds::nothing;
  };

  Slot& next_pass(uint32_t at, Holds before, Holds after) {
    auto& slot = slots_.at(at);
    require(slot.holds == before, "a backward pass before its time");
    slot.holds = after;
    prepare_compute_thread();
    return slot;
  }

  uint64_t size(uint32_t value, uint32_t rows) const {
    return graph_.values[value].size() * rows;
  }

  void take_values(const Engine& engine, const float* in, uint32_t rows) const {
    for (auto value : part_.in.values) {
      if (auto* to = engine.value(value); to != nullptr)
        std::copy_n(in, size(value, rows), to);
      in += size(value, rows);
    }
  }

  void give_values(const Engine& engine, const float* in, float* out,
                   uint32_t rows) const {
    for (auto value : part_.out.values) {
      const auto* from = engine.sent_value(value);
      if (from == nullptr)
        from = in + place(part_.in.values, value, rows);
      out = std::copy_n(from, size(value, rows), out);
    }
  }

  void take_gradients(const Engine& engine, const float* from_next,
                      uint32_t rows, float* gradient,
                      const Layout& layout) const {
    for (auto value : part_.out.gradients) {
      if (auto* to = engine.gradient(value); to != nullptr)
        std::copy_n(from_next, size(value, rows), to);
      from_next += size(value, rows);
    }
    for (auto parameter : part_.out.parameters) {
      const auto count = graph_.parameters[parameter].size();
      if (const auto at = layout.offsets[parameter]; at != Layout::nowhere)
        std::copy_n(from_next, count, gradient + at);
      from_next += count;
    }
  }

  void give_gradients(const Engine& engine, const float* from_next,
                      uint32_t rows, const float* gradient,
                      const Layout& layout, float* to) const {
    for (auto value : part_.in.gradients) {
      const auto* from = engine.gradient(value);
      if (from == nullptr)
        from = from_next + place(part_.out.gradients, value, rows);
      to = std::copy_n(from, size(value, rows), to);
    }
    from_next += place(part_.out.gradients, ~uint32_t{0}, rows);
    for (auto parameter : part_.in.parameters) {
      const auto at = layout.offsets[parameter];
      const auto* from = at != Layout::nowhere
                           ? gradient + at
                           : from_next + parameter_place(parameter);
      to = std::copy_n(from, graph_.parameters[parameter].size(), to);
    }
  }

  /// Elements of the values before one.
  uint64_t place(const std::vector<uint32_t>& values, uint32_t value,
                 uint32_t rows) const {
    uint64_t before = 0;
    for (auto other : values)
      if (other < value)
        before += size(other, rows);
    return before;
  }
  uint64_t parameter_place(uint32_t parameter) const {
    uint64_t before = 0;
    for (auto other : part_.out.parameters)
      if (other < parameter)
        before += graph_.parameters[other].size();
    return before;
  }

  Graph graph_;
  std::unique_ptr<Device> device_;
  std::vector<Slot> slots_;
  Layout early_layout_; ///< of what the half for inputs gives parameters
};

} // namespace

std::unique_ptr<StageReplica>
make_cpu_stage_replica(const Graph& graph, GraphPart part,
                       const StageOptions& options) {
  return std::make_unique<CpuStageReplica>(graph, std::move(part), options);
}

} // namespace troupe::kernels
