#include "kernels/cpu/stage_replica.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/base/require.hpp"
#include "kernels/cpu/device.hpp"
#include "kernels/cpu/pass.hpp"
#include "kernels/engine/slot_course.hpp"

#include <algorithm>

namespace troupe::kernels {

namespace {

uint32_t workspaces_of(const StageOptions& options) {
  return options.recompute ? options.activations : options.in_flight;
}

/// A slot keeps a micro-batch from its forward to its backward pass, and so its
/// workspace; where activations are computed again, its inputs alone, and it
/// has any workspace for the time of a pass or, from the half of a backward
/// pass for inputs on, until that for weights.
class CpuStageReplica final : public StageReplica {
public:
  CpuStageReplica(const Graph& graph, GraphPart part,
                  const StageOptions& options)
    : StageReplica(graph, std::move(part)),
      graph_(graph),
      device_(make_cpu_device(options.precision)),
      recompute_(options.recompute),
      slots_(options.in_flight),
      workspaces_(workspaces_of(options)),
      early_layout_(graph, {}) {
    require(!slots_.empty() && !workspaces_.empty(),
            "a stage for no micro-batch");
    for (auto& workspace : workspaces_)
      workspace.engine = std::make_unique<Engine>(
        graph_, part_, *device_, options.max_rows, options.in_halves);
    if (recompute_)
      for (auto& slot : slots_)
        slot.in = Buffer{forward_elements(graph_, part_.in, options.max_rows)};
    if (!options.in_halves)
      return;
    early_layout_ = Layout{graph_, workspaces_.front().engine->halves().early};
    for (auto& workspace : workspaces_)
      workspace.early = Buffer{std::max<size_t>(1, early_layout_.total)};
  }

  LeafStats forward(uint32_t at, const float* parameters, const Batch& batch,
                    const float* in, float* out) override {
    auto& slot = next_pass(at, &SlotCourse::forward);
    slot.batch = batch;
    slot.pass = cpu_pass(parameters, slot.batch);
    slot.pass.training = true;
    slot.pass.totals = &slot.totals;
    auto& workspace = take_workspace(at);
    run_forward(slot, workspace, in);
    give_values(*workspace.engine, in, out, batch.rows);
    if (recompute_) {
      std::copy_n(in, forward_elements(graph_, part_.in, batch.rows),
                  slot.in.data());
      workspace.taken = false;
    }
    return {slot.totals.loss, slot.totals.correct};
  }

  void backward(uint32_t at, const float* from_next, float* gradient,
                float* to_previous) override {
    auto& slot = next_pass(at, &SlotCourse::backward);
    auto& workspace = forward_again(at);
    const auto rows = slot.batch.rows;
    take_gradients(*workspace.engine, from_next, rows, gradient, layout_);
    workspace.engine->backward(slot.pass, gradient);
    give_gradients(*workspace.engine, from_next, rows, gradient, layout_,
                   to_previous);
    workspace.taken = false;
  }

  void backward_inputs(uint32_t at, const float* from_next,
                       float* to_previous) override {
    auto& slot = next_pass(at, &SlotCourse::backward_inputs);
    auto& workspace = forward_again(at);
    const auto rows = slot.batch.rows;
    auto* early = workspace.early.data();
    take_gradients(*workspace.engine, from_next, rows, early, early_layout_);
    workspace.engine->backward_inputs(slot.pass, early);
    give_gradients(*workspace.engine, from_next, rows, early, early_layout_,
                   to_previous);
  }

  void backward_weights(uint32_t at, float* gradient) override {
    auto& slot = next_pass(at, &SlotCourse::backward_weights);
    auto& workspace = workspaces_[slot.workspace];
    for (auto parameter : workspace.engine->halves().early)
      std::copy_n(workspace.early.data() + early_layout_.offsets[parameter],
                  graph_.parameters[parameter].size(),
                  gradient + layout_.offsets[parameter]);
    workspace.engine->backward_weights(slot.pass, gradient);
    workspace.taken = false;
  }

  void move_parameters(uint32_t at, const float* parameters) override {
    auto& slot = slots_.at(at);
    require(!slot.course.is_empty(), "no micro-batch to go backward");
    slot.pass.parameters = parameters;
    if (!recompute_ || slot.course.is_half())
      workspaces_[slot.workspace].engine->move_parameters(slot.pass);
  }

  void abandon() override {
    for (auto& slot : slots_)
      slot.course.abandon();
    for (auto& workspace : workspaces_)
      workspace.taken = false;
  }

  uint64_t memory_bytes() const override {
    return (workspaces_.size()
              * (workspaces_.front().engine->memory().total
                 + early_layout_.total)
            + slots_.size() * slots_.front().in.size())
           * sizeof(float);
  }

private:
  struct Slot {
    Batch batch;
    Engine::Pass pass;
    LossTotals totals;
    Buffer in;              ///< where activations are computed again
    uint32_t workspace = 0; ///< where its activations are
    SlotCourse course;
  };

  /// With operators of its own: some keep what they found of an input until
  /// its backward pass.
  struct Workspace {
    std::unique_ptr<Engine> engine;
    Buffer early; ///< between the halves; flat by early_layout_
    bool taken = false;
  };

  Slot& next_pass(uint32_t at, void (SlotCourse::*pass)()) {
    auto& slot = slots_.at(at);
    (slot.course.*pass)();
    prepare_compute_thread();
    return slot;
  }

  Workspace& take_workspace(uint32_t at) {
    uint32_t index = at;
    if (recompute_)
      for (index = 0; index < workspaces_.size(); ++index)
        if (!workspaces_[index].taken)
          break;
    auto& workspace = workspaces_.at(index);
    workspace.taken = true;
    slots_[at].workspace = index;
    return workspace;
  }

  /// Where the activations of a slot's micro-batch are.
  Workspace& forward_again(uint32_t at) {
    auto& slot = slots_[at];
    if (!recompute_)
      return workspaces_[slot.workspace];
    auto& workspace = take_workspace(at);
    run_forward(slot, workspace, slot.in.data());
    return workspace;
  }

  void run_forward(Slot& slot, const Workspace& workspace, const float* in) {
    slot.totals = {};
    take_values(*workspace.engine, in, slot.batch.rows);
    workspace.engine->forward(slot.pass);
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
  bool recompute_;
  std::vector<Slot> slots_;
  std::vector<Workspace> workspaces_;
  Layout early_layout_; ///< of what the half for inputs gives parameters
};

class CpuPartMemory final : public PartMemory {
public:
  CpuPartMemory(const Graph& graph, const StageOptions& options)
    : graph_(graph),
      options_(options),
      device_(make_cpu_device(options.precision)),
      needs_(graph.ops.size()),
      known_(graph.ops.size(), 0) {}

  uint64_t bytes(const GraphPart& part, const StageOptions& options) override {
    for (auto i = part.ops.begin; i < part.ops.end; ++i)
      if (!known_[i]) {
        needs_[i] =
          device_->make_operator(graph_, i, options_.max_rows)->needs();
        known_[i] = 1;
      }
    BackwardHalves halves;
    if (options_.in_halves)
      halves = halve_backward(graph_, part, needs_);
    const auto plan = MemoryPlan::make(graph_, part, needs_, options_.max_rows,
                                       halves.splits);
    const auto kept = options_.recompute
                        ? forward_elements(graph_, part.in, options_.max_rows)
                        : 0;
    return (workspaces_of(options)
              * (plan.total + Layout(graph_, halves.early).total)
            + options.in_flight * kept)
           * sizeof(float);
  }

private:
  const Graph& graph_;
  StageOptions options_;
  std::unique_ptr<Device> device_;
  std::vector<Needs> needs_; ///< by operator, as parts ask for them
  std::vector<uint8_t> known_;
};

} // namespace

std::unique_ptr<StageReplica>
make_cpu_stage_replica(const Graph& graph, GraphPart part,
                       const StageOptions& options) {
  return std::make_unique<CpuStageReplica>(graph, std::move(part), options);
}

std::unique_ptr<PartMemory> make_cpu_part_memory(const Graph& graph,
                                                 const StageOptions& options) {
  return std::make_unique<CpuPartMemory>(graph, options);
}

} // namespace troupe::kernels
