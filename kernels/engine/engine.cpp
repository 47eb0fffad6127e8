#include "kernels/engine/engine.hpp"

#include "kernels/base/require.hpp"
#include "kernels/engine/parameter_gate.hpp"

#include <utility>

namespace troupe::kernels {

Engine::Engine(const Graph& graph, Device& device, uint32_t max_rows)
  : Engine(graph, part_of(graph, {0, static_cast<uint32_t>(graph.ops.size())}),
           device, max_rows) {}

Engine::Engine(const Graph& graph, GraphPart part, Device& device,
               uint32_t max_rows, bool in_halves,
               const std::vector<uint32_t>& layers)
  : graph_(graph),
    part_(std::move(part)),
    layout_(graph_, part_.parameters),
    device_(device),
    max_rows_(max_rows),
    operators_(graph.ops.size()),
    needs_(graph.ops.size()),
    in_halves_(in_halves),
    early_layout_(graph_, {}),
    args_(graph.ops.size()),
    places_(graph.values.size()),
    final_(graph.ops.size()) {
  require(max_rows > 0, "an engine for no rows");
  for (size_t i = part_.ops.begin; i < part_.ops.end; ++i) {
    operators_[i] = device_.make_operator(graph_, i, max_rows);
    needs_[i] = operators_[i]->needs();
  }
  if (in_halves_) {
    halves_ = halve_backward(graph_, part_, needs_);
    early_layout_ = Layout(graph_, halves_.early);
  }
  plan_ = MemoryPlan::make(graph_, part_, needs_, max_rows, halves_.splits,
                           layers);
  arena_ = device_.allocate(plan_.held);
  std::vector<uint8_t> seen(graph_.parameters.size(), 0);
  for (size_t i = part_.ops.begin; i < part_.ops.end; ++i) {
    const auto& op = graph_.ops[i];
    auto& args = args_[i];
    args.inputs.resize(op.inputs.size());
    args.input_gradients.resize(op.inputs.size());
    args.accumulate_inputs.resize(op.inputs.size());
    args.parameters.resize(op.parameters.size());
    args.parameter_gradients.resize(op.parameters.size());
    args.accumulate_parameters.resize(op.parameters.size());
    // The first operator to use a parameter is the last to add to it.
    for (auto parameter : op.parameters)
      if (!std::exchange(seen[parameter], uint8_t{1}))
        final_[i].push_back(parameter);
  }
  for (size_t i = part_.ops.end; i-- > part_.ops.begin;)
    order_.insert(order_.end(), final_[i].begin(), final_[i].end());
}

float* Engine::at(uint64_t offset) const {
  if (offset == MemoryPlan::nowhere)
    return nullptr;
  return offset < plan_.held || passing_ == nullptr
           ? arena_ + offset
           : passing_ + (offset - plan_.held);
}

void Engine::bind(const Pass& pass) {
  require(pass.rows > 0 && pass.rows <= max_rows_,
          "rows of a batch outside [1, max_rows]");
  auto& places = places_;
  for (size_t i = 0; i < places.size(); ++i)
    places[i] = at(plan_.values[i]);
  if (graph_.features_value)
    places[*graph_.features_value] = pass.features;
  if (graph_.ids_value)
    places[*graph_.ids_value] = reinterpret_cast<const float*>(pass.ids);
  for (size_t i = part_.ops.begin; i < part_.ops.end; ++i) {
    const auto& op = graph_.ops[i];
    auto& args = args_[i];
    if (needs_[i].alias) // of the batch's memory too
      places[op.output] = places[op.inputs[0]];
    args.rows = pass.rows;
    args.training = pass.training;
    for (size_t k = 0; k < op.inputs.size(); ++k)
      args.inputs[k] = places[op.inputs[k]];
    args.output = const_cast<float*>(places[op.output]);
    args.saved = at(plan_.saved[i]);
    args.scratch = at(plan_.scratch);
    args.key = pass.key;
    args.exchange = pass.exchange;
    args.step = pass.step;
  }
  move_parameters(pass);
  auto& loss = args_.back(); // of the last stage alone, which runs it
  loss.labels = pass.labels;
  loss.targets = pass.targets;
  loss.totals = pass.totals;
  loss.classes = pass.classes;
}

void Engine::move_parameters(const Pass& pass) {
  for (size_t i = part_.ops.begin; i < part_.ops.end; ++i) {
    const auto& parameters = graph_.ops[i].parameters;
    for (size_t k = 0; k < parameters.size(); ++k)
      args_[i].parameters[k] = pass.parameters + layout_.offsets[parameters[k]];
  }
}

void Engine::forward(const Pass& pass) {
  forward(pass, part_.ops);
}

void Engine::forward(const Pass& pass, OpRange ops) {
  if (ops.begin == part_.ops.begin)
    bind(pass);
  for (size_t i = ops.begin; i < ops.end; ++i) {
    const bool waits = pass.training && pass.loss_waits
                       && needs_[i].backward_gives_loss
                       && plan_.runs_backward[i];
    if (needs_[i].alias || waits)
      continue;
    if (pass.gate != nullptr)
      for (auto parameter : graph_.ops[i].parameters)
        pass.gate->await(parameter);
    leaf_by_leaf(pass, i, [&](OpArgs& args) { operators_[i]->forward(args); });
  }
}

/// Runs an operator on the rows of each leaf, unless it takes all at once.
template <class Run>
void Engine::leaf_by_leaf(const Pass& pass, size_t i, const Run& run) {
  const auto& op = graph_.ops[i];
  args_[i].leaves = pass.leaves;
  if (pass.leaves.empty() || op.kind == OpKind::dense) {
    run(args_[i]);
    return;
  }
  const auto move = [](auto*& place, uint64_t count) {
    if (place != nullptr)
      place += count;
  };
  auto args = args_[i];
  for (const auto& leaf : pass.leaves) {
    args.rows = leaf.rows;
    args.key = &leaf.key;
    run(args);
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      const auto count = leaf.rows * graph_.values[op.inputs[k]].size();
      move(args.inputs[k], count);
      move(args.input_gradients[k], count);
    }
    move(args.output, leaf.rows * graph_.values[op.output].size());
    move(args.output_gradient, leaf.rows * graph_.values[op.output].size());
    move(args.saved, leaf.rows * needs_[i].saved.per_row);
    move(args.labels, leaf.rows * graph_.labels());
    move(args.targets, leaf.rows * graph_.labels());
    move(args.classes, leaf.rows * graph_.labels());
    move(args.totals, 1);
  }
}

void Engine::backward(const Pass& pass, float* gradient,
                      const std::function<void(uint32_t)>& ready) {
  begin_backward(pass);
  run_backward(pass, part_.ops, BackwardHalf::both, gradient, layout_, ready);
}

void Engine::backward(const Pass& pass, OpRange ops, float* gradient) {
  if (ops.end == part_.ops.end)
    begin_backward(pass);
  run_backward(pass, ops, BackwardHalf::both, gradient, layout_, {});
}

void Engine::backward_inputs(const Pass& pass, float* early) {
  backward_inputs(pass, part_.ops, early);
}

void Engine::backward_inputs(const Pass& pass, OpRange ops, float* early) {
  require(in_halves_, "a backward pass that is not in halves");
  if (ops.end == part_.ops.end)
    begin_backward(pass);
  run_backward(pass, ops, BackwardHalf::inputs, early, early_layout_, {});
}

void Engine::backward_weights(const Pass& pass, float* gradient) {
  require(in_halves_, "a backward pass that is not in halves");
  std::vector<uint8_t> written(graph_.parameters.size(), 0);
  for (auto parameter : halves_.early)
    written[parameter] = 1;
  for (size_t i = part_.ops.end; i-- > part_.ops.begin;) {
    if (!halves_.splits[i])
      continue;
    args_[i].half = BackwardHalf::weights;
    give_to_parameters(i, gradient, layout_, written);
    leaf_by_leaf(pass, i, [&](OpArgs& of) { operators_[i]->backward(of); });
  }
}

void Engine::begin_backward(const Pass& pass) {
  require(pass.training, "a backward pass of an evaluation");
  if (passing_ != nullptr) // which may lie elsewhere by now
    bind(pass);
  begun_.assign(graph_.values.size(), 0);
  written_.assign(graph_.parameters.size(), 0);
  for (auto value : part_.out.gradients)
    begun_[value] = 1;
  for (auto parameter : part_.out.parameters)
    written_[parameter] = 1;
}

/// All of it, or the half for inputs, in which only operators without halves
/// give parameters something.
void Engine::run_backward(const Pass& pass, OpRange ops, BackwardHalf half,
                          float* gradient, const Layout& layout,
                          const std::function<void(uint32_t)>& ready) {
  for (size_t i = ops.end; i-- > ops.begin;) {
    const auto& op = graph_.ops[i];
    auto& args = args_[i];
    args.output_gradient = at(plan_.gradients[op.output]);
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      args.input_gradients[k] = at(plan_.gradients[op.inputs[k]]);
      args.accumulate_inputs[k] = std::exchange(begun_[op.inputs[k]],
                                                uint8_t{1});
    }
    for (auto again : plan_.again[i])
      leaf_by_leaf(pass, again,
                   [&](OpArgs& of) { operators_[again]->forward(of); });
    const bool splits = half == BackwardHalf::inputs && halves_.splits[i];
    args.half = splits ? BackwardHalf::inputs : BackwardHalf::both;
    if (!splits)
      give_to_parameters(i, gradient, layout, written_);
    if (plan_.runs_backward[i])
      run_operator_backward(pass, i);
    if (ready)
      for (auto parameter : final_[i])
        ready(parameter);
  }
}

void Engine::give_to_parameters(size_t i, float* gradient, const Layout& layout,
                                std::vector<uint8_t>& written) {
  const auto& parameters = graph_.ops[i].parameters;
  for (size_t k = 0; k < parameters.size(); ++k) {
    args_[i].parameter_gradients[k] = gradient + layout.offsets[parameters[k]];
    args_[i].accumulate_parameters[k] = std::exchange(written[parameters[k]],
                                                      uint8_t{1});
  }
}

void Engine::run_operator_backward(const Pass& pass, size_t i) {
  auto& args = args_[i];
  if (needs_[i].alias) {
    pass_on(i);
    return;
  }
  const auto backward = [&](OpArgs& of) { operators_[i]->backward(of); };
  if (needs_[i].accumulates) {
    leaf_by_leaf(pass, i, backward);
    return;
  }
  // At most one input can be added to at a time: there is one spare buffer.
  size_t added = args.inputs.size();
  float* target = nullptr;
  for (size_t k = 0; k < args.inputs.size(); ++k)
    if (args.accumulate_inputs[k] && args.input_gradients[k] != nullptr) {
      require(added == args.inputs.size(),
              "an operator with two inputs to add to must accumulate");
      added = k;
      target = args.input_gradients[k];
      args.input_gradients[k] = at(plan_.spare);
      args.accumulate_inputs[k] = 0;
    }
  leaf_by_leaf(pass, i, backward);
  if (target != nullptr)
    device_.add(at(plan_.spare), target,
                args.rows * graph_.values[graph_.ops[i].inputs[added]].size());
}

void Engine::pass_on(size_t i) {
  const auto& args = args_[i];
  const auto count = args.rows * graph_.values[graph_.ops[i].output].size();
  if (args.input_gradients[0] == nullptr)
    return;
  if (args.accumulate_inputs[0])
    device_.add(args.output_gradient, args.input_gradients[0], count);
  else
    device_.copy(args.output_gradient, args.input_gradients[0], count);
}

} // namespace troupe::kernels
