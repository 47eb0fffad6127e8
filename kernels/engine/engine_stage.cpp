#include "kernels/engine/engine_stage.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/base/require.hpp"
#include "kernels/engine/slot_course.hpp"

#include <algorithm>
#include <utility>

namespace troupe::kernels {

namespace {

/// Passes that wait for sums over all virtual ranks are under way at once, each
/// with its activations.
StageOptions with_sums(const Graph& graph, const GraphPart& part,
                       StageOptions options) {
  if (!rank_sums(graph, part, true).empty())
    options.activations = options.in_flight;
  return options;
}

uint32_t workspaces_of(const StageOptions& options) {
  return options.recompute ? options.activations : options.in_flight;
}

/// Elements of all that slots and passes have between them, of a plan like
/// this; what slots keep of inputs is not among them.
uint64_t elements_of(const MemoryPlan& plan, uint64_t early,
                     const StageOptions& options) {
  const uint64_t lent = options.layers.empty() ? 0 : options.activations;
  return workspaces_of(options) * (plan.held + early)
         + lent * (plan.total - plan.held);
}

/// A slot keeps a micro-batch from its forward to its backward pass, and so its
/// workspace; where activations are computed again, its inputs alone, and it
/// has any workspace for the time of a pass or, from the half of a backward
/// pass for inputs on, until that for weights. Where those of some layers are,
/// it has memory for these as long.
class EngineStage final : public StageReplica {
public:
  EngineStage(const Graph& graph, GraphPart part, const StageOptions& options,
              std::unique_ptr<StageDevice> device)
    : StageReplica(graph, std::move(part), options.recompute),
      graph_(graph),
      device_(std::move(device)),
      recompute_(options.recompute),
      slots_(options.in_flight),
      workspaces_(workspaces_of(options)),
      lent_(options.layers.empty() ? 0 : options.activations),
      early_layout_(graph, {}) {
    require(!options.recompute || options.layers.empty(),
            "some layers of a stage that computes all again");
    require(!slots_.empty() && !workspaces_.empty(),
            "a stage for no micro-batch");
    for (auto& workspace : workspaces_)
      workspace.engine = std::make_unique<Engine>(
        graph_, part_, device_->device(), options.max_rows, options.in_halves,
        options.layers);
    const auto& plan = workspaces_.front().engine->memory();
    for (auto& lent : lent_)
      lent.memory = device_->device().allocate(plan.total - plan.held);
    if (recompute_)
      for (auto& slot : slots_)
        slot.in = Buffer{forward_elements(graph_, part_.in, options.max_rows)};
    if (options.in_halves) {
      early_layout_ = Layout{graph_,
                             workspaces_.front().engine->halves().early};
      for (auto& workspace : workspaces_)
        workspace.early =
          device_->device().allocate(std::max<size_t>(1, early_layout_.total));
    }
    elements_ = elements_of(plan, early_layout_.total, options)
                + slots_.size() * slots_.front().in.size();
  }

  LeafStats forward(uint32_t at, const float* parameters, const Batch& batch,
                    const float* in, float* out) override {
    const bool alone = std::ranges::all_of(slots_, [](const Slot& slot) {
      return slot.course.is_empty();
    });
    auto& slot = next_pass(at, &SlotCourse::forward);
    slot.batch = batch;
    slot.pass = device_->take_batch(at, slot.batch);
    slot.parameters = parameters;
    slot.pass.parameters = device_->take_parameters(parameters, !alone);
    slot.pass.training = true;
    auto& pass = slot.under_way;
    pass = {&slot, &take_workspace(at), Pass::forward, in, nullptr, out};
    take_lent(*pass.workspace);
    begin_forward(pass, in);
    take_on(pass);
    return stats_of(pass);
  }

  void backward(uint32_t at, const float* from_next, float* gradient,
                float* to_previous) override {
    auto& slot = next_pass(at, &SlotCourse::backward);
    go_back(at,
            {&slot, nullptr, Pass::backward, from_next, gradient, to_previous});
  }

  void backward_inputs(uint32_t at, const float* from_next,
                       float* to_previous) override {
    auto& slot = next_pass(at, &SlotCourse::backward_inputs);
    go_back(at, {&slot, nullptr, Pass::backward_inputs, from_next, nullptr,
                 to_previous});
  }

  LeafStats go_on() override {
    require(!awaited_.empty(), "no pass that waits for a sum");
    device_->enter();
    device_->take_back();
    take_on(*waiting_);
    return stats_of(*waiting_);
  }

  void backward_weights(uint32_t at, float* gradient) override {
    auto& slot = next_pass(at, &SlotCourse::backward_weights);
    auto& workspace = workspaces_[slot.workspace];
    take_parameters(slot, *workspace.engine);
    auto* to = device_->take_gradient(gradient);
    for (auto parameter : workspace.engine->halves().early)
      device_->device().copy(workspace.early + early_layout_.offsets[parameter],
                             to + layout_.offsets[parameter],
                             graph_.parameters[parameter].size());
    workspace.engine->backward_weights(slot.pass, to);
    give_gradient(to, gradient);
    let_go(workspace);
    device_->end();
  }

  void move_parameters(uint32_t at, const float* parameters) override {
    auto& slot = slots_.at(at);
    require(!slot.course.is_empty(), "no micro-batch to go backward");
    slot.parameters = parameters;
  }

  void abandon() override {
    awaited_ = {};
    for (auto& slot : slots_) {
      slot.course.abandon();
      auto& pass = slot.under_way;
      if (pass.pass == Pass::backward && pass.gives != nullptr)
        device_->give_back(std::exchange(pass.gives, nullptr));
    }
    for (auto& workspace : workspaces_)
      let_go(workspace);
  }

  uint64_t memory_bytes() const override { return elements_ * sizeof(float); }

private:
  struct Slot;
  struct Workspace;
  enum class Pass : uint8_t { forward, backward, backward_inputs };

  /// A pass in hand, from sum to sum.
  struct UnderWay {
    Slot* slot = nullptr;
    Workspace* workspace = nullptr;
    Pass pass = Pass::forward;
    const float* in = nullptr; ///< from the stage before, or after
    float* gradient = nullptr; ///< the host's, of a whole backward pass
    float* out = nullptr;
    float* gives = nullptr;   ///< where the gradient is written
    bool goes_forward = true; ///< also where activations are computed again
    uint32_t at = 0; ///< the next operator, or the one after it going backward
    size_t sum = 0;  ///< the next one of the pass
  };

  struct Slot {
    Batch batch;
    Engine::Pass pass;
    const float* parameters = nullptr; ///< the host's
    Buffer in;                         ///< where activations are computed again
    uint32_t workspace = 0;            ///< where its activations are
    SlotCourse course;
    UnderWay under_way;
  };

  /// What an engine has for a pass alone.
  struct Lent {
    float* memory = nullptr;
    bool taken = false;
  };

  /// With operators of its own: some keep what they found of an input until
  /// its backward pass.
  struct Workspace {
    std::unique_ptr<Engine> engine;
    float* early = nullptr; ///< between the halves; flat by early_layout_
    bool taken = false;
    Lent* lent = nullptr;
  };

  Slot& next_pass(uint32_t at, void (SlotCourse::*pass)()) {
    auto& slot = slots_.at(at);
    (slot.course.*pass)();
    device_->enter();
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

  void take_lent(Workspace& workspace) {
    if (lent_.empty())
      return;
    const auto free = std::ranges::find(lent_, false, &Lent::taken);
    require(free != lent_.end(), "more passes at once than there are");
    free->taken = true;
    workspace.lent = &*free;
    workspace.engine->lend(free->memory);
  }

  static void give_back(Workspace& workspace) {
    if (workspace.lent != nullptr)
      std::exchange(workspace.lent, nullptr)->taken = false;
  }

  static void let_go(Workspace& workspace) {
    workspace.taken = false;
    give_back(workspace);
  }

  /// Backward, from where the activations of a slot's micro-batch are.
  void go_back(uint32_t at, const UnderWay& begun) {
    auto& pass = begun.slot->under_way;
    pass = begun;
    pass.workspace = recompute_ ? &take_workspace(at)
                                : &workspaces_[pass.slot->workspace];
    take_parameters(*pass.slot, *pass.workspace->engine);
    pass.gives = pass.pass == Pass::backward
                   ? device_->take_gradient(pass.gradient)
                   : pass.workspace->early;
    if (recompute_) {
      begin_forward(pass, pass.slot->in.data());
    } else {
      take_lent(*pass.workspace);
      begin_backward(pass);
    }
    take_on(pass);
  }

  /// Of a micro-batch that has gone forward, wherever they are now.
  void take_parameters(Slot& slot, Engine& engine) {
    slot.pass.parameters = device_->take_parameters(slot.parameters, true);
    engine.move_parameters(slot.pass);
  }

  void begin_forward(UnderWay& pass, const float* in) {
    take_values(*pass.workspace->engine, in, pass.slot->batch.rows);
    pass.goes_forward = true;
    pass.at = part_.ops.begin;
  }

  void begin_backward(UnderWay& pass) {
    take_gradients(*pass.workspace->engine, pass.in, pass.slot->batch.rows,
                   pass.gives, layout_of(pass));
    pass.goes_forward = false;
    pass.at = part_.ops.end;
  }

  /// Up to the next sum of the pass over tensor members, or to its end.
  void take_on(UnderWay& pass) {
    awaited_ = {};
    run(pass);
    device_->end();
  }

  void run(UnderWay& pass) {
    if (pass.goes_forward) {
      if (!runs_forward(pass))
        return;
      if (pass.pass == Pass::forward)
        return end_forward(pass);
      begin_backward(pass);
    }
    if (runs_backward(pass))
      end_backward(pass);
  }

  /// Of a forward pass that is done, of a part that ends with the loss.
  LeafStats stats_of(const UnderWay& pass) {
    if (!awaited_.empty() || pass.pass != Pass::forward
        || part_.ops.end < graph_.ops.size())
      return {};
    const auto totals =
      device_->totals(static_cast<uint32_t>(pass.slot - slots_.data()));
    return {totals.loss, totals.correct};
  }

  /// The sum that comes next, if it is one of this direction.
  const TensorSum* next_sum(const UnderWay& pass) const {
    const auto& sums = pass.pass == Pass::forward ? forward_sums_
                                                  : backward_sums_;
    const bool is_next = pass.sum < sums.size()
                         && sums[pass.sum].forward == pass.goes_forward;
    return is_next ? &sums[pass.sum] : nullptr;
  }

  void await(UnderWay& pass, float* place, uint32_t value) {
    awaited_ = device_->show(place, size(value, pass.slot->batch.rows));
    waiting_ = &pass;
    ++pass.sum;
  }

  /// False: it stopped before a sum.
  bool runs_forward(UnderWay& pass) {
    auto& engine = *pass.workspace->engine;
    const auto* sum = next_sum(pass);
    const auto end = sum != nullptr ? sum->op : part_.ops.end;
    engine.forward(pass.slot->pass, {pass.at, end});
    pass.at = end;
    if (sum != nullptr)
      await(pass, engine.value(sum->value), sum->value);
    return sum == nullptr;
  }

  bool runs_backward(UnderWay& pass) {
    auto& engine = *pass.workspace->engine;
    const auto* sum = next_sum(pass);
    const OpRange ops{sum != nullptr ? sum->op + 1 : part_.ops.begin, pass.at};
    if (pass.pass == Pass::backward)
      engine.backward(pass.slot->pass, ops, pass.gives);
    else
      engine.backward_inputs(pass.slot->pass, ops, pass.gives);
    pass.at = ops.begin;
    if (sum != nullptr)
      await(pass, engine.gradient(sum->value), sum->value);
    return sum == nullptr;
  }

  void end_forward(const UnderWay& pass) {
    auto& slot = *pass.slot;
    give_values(*pass.workspace->engine, pass.in, pass.out, slot.batch.rows);
    give_back(*pass.workspace);
    if (recompute_) {
      std::copy_n(pass.in, forward_elements(graph_, part_.in, slot.batch.rows),
                  slot.in.data());
      pass.workspace->taken = false;
    }
  }

  void end_backward(UnderWay& pass) {
    give_gradients(*pass.workspace->engine, pass.in, pass.slot->batch.rows,
                   pass.gives, layout_of(pass), pass.out);
    if (pass.pass != Pass::backward)
      return;
    give_gradient(std::exchange(pass.gives, nullptr), pass.gradient);
    let_go(*pass.workspace);
  }

  /// How lies what a pass gives parameters: the half for inputs has memory of
  /// its own for what the other half adds to.
  const Layout& layout_of(const UnderWay& pass) const {
    return pass.pass == Pass::backward ? layout_ : early_layout_;
  }

  /// To the host's gradient, without its gaps.
  void give_gradient(float* from, float* to) {
    for (auto parameter : part_.parameters)
      device_->fetch(from + layout_.offsets[parameter],
                     to + layout_.offsets[parameter],
                     graph_.parameters[parameter].size());
    device_->give_back(from);
  }

  uint64_t size(uint32_t value, uint32_t rows) const {
    return graph_.values[value].size() * rows;
  }

  void take_values(const Engine& engine, const float* in, uint32_t rows) {
    for (auto value : part_.in.values) {
      if (auto* to = engine.value(value); to != nullptr)
        device_->send_value(value, in, to, size(value, rows));
      in += size(value, rows);
    }
  }

  void give_values(const Engine& engine, const float* in, float* out,
                   uint32_t rows) {
    for (auto value : part_.out.values) {
      const auto count = size(value, rows);
      if (const auto* from = engine.sent_value(value); from != nullptr)
        device_->fetch_value(value, from, out, count);
      else
        std::copy_n(in + place(part_.in.values, value, rows), count, out);
      out += count;
    }
  }

  void take_gradients(const Engine& engine, const float* from_next,
                      uint32_t rows, float* gradient, const Layout& layout) {
    for (auto value : part_.out.gradients) {
      if (auto* to = engine.gradient(value); to != nullptr)
        device_->send_value(value, from_next, to, size(value, rows));
      from_next += size(value, rows);
    }
    for (auto parameter : part_.out.parameters) {
      const auto count = graph_.parameters[parameter].size();
      if (const auto at = layout.offsets[parameter]; at != Layout::nowhere)
        device_->send(from_next, gradient + at, count);
      from_next += count;
    }
  }

  void give_gradients(const Engine& engine, const float* from_next,
                      uint32_t rows, const float* gradient,
                      const Layout& layout, float* to) {
    for (auto value : part_.in.gradients) {
      const auto count = size(value, rows);
      if (const auto* from = engine.gradient(value); from != nullptr)
        device_->fetch_value(value, from, to, count);
      else
        std::copy_n(from_next + place(part_.out.gradients, value, rows), count,
                    to);
      to += count;
    }
    from_next += place(part_.out.gradients, ~uint32_t{0}, rows);
    for (auto parameter : part_.in.parameters) {
      const auto count = graph_.parameters[parameter].size();
      if (const auto at = layout.offsets[parameter]; at != Layout::nowhere)
        device_->fetch(gradient + at, to, count);
      else
        std::copy_n(from_next + parameter_place(parameter), count, to);
      to += count;
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
  std::unique_ptr<StageDevice> device_;
  bool recompute_;
  std::vector<Slot> slots_;
  std::vector<Workspace> workspaces_;
  std::vector<Lent> lent_;
  uint64_t elements_ = 0; ///< of all of it
  Layout early_layout_;   ///< of what the half for inputs gives parameters
  UnderWay* waiting_ = nullptr; ///< for a sum over tensor members
};

class EnginePartMemory final : public PartMemory {
public:
  EnginePartMemory(const Graph& graph, const StageOptions& options,
                   std::unique_ptr<Device> device)
    : graph_(graph),
      options_(options),
      device_(std::move(device)),
      needs_(graph.ops.size()),
      known_(graph.ops.size(), 0) {}

  uint64_t bytes(const GraphPart& part, const StageOptions& given) override {
    const auto options = with_sums(graph_, part, given);
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
                                       halves.splits, options_.layers);
    const auto kept = options_.recompute
                        ? forward_elements(graph_, part.in, options_.max_rows)
                        : 0;
    return (elements_of(plan, Layout(graph_, halves.early).total, options)
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
make_engine_stage(const Graph& graph, GraphPart part, const StageOptions& given,
                  std::unique_ptr<StageDevice> device) {
  require(given.keeps_parameters || given.in_flight == 1,
          "several micro-batches of a part that keeps no parameters");
  const auto options = with_sums(graph, part, given);
  return std::make_unique<EngineStage>(graph, std::move(part), options,
                                       std::move(device));
}

std::unique_ptr<PartMemory>
make_engine_part_memory(const Graph& graph, const StageOptions& options,
                        std::unique_ptr<Device> device) {
  return std::make_unique<EnginePartMemory>(graph, options, std::move(device));
}

} // namespace troupe::kernels
