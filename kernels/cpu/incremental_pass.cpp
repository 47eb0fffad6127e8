#include "kernels/cpu/incremental_pass.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"
#include "kernels/cpu/elementwise_loops.hpp"
#include "kernels/cpu/operators.hpp"
#include "kernels/graph/model_spec.hpp"
#include "kernels/graph/rotary_turns.hpp"

#include <algorithm>

namespace troupe::kernels {

namespace {

/// Places that are read together, which share the weights that are fetched.
constexpr uint32_t max_rows = 64;

[[noreturn]] void refuse(const Op& op, const std::string& what) {
  throw UsageError("operator " + op.name + " (" + to_string(op.kind) + ") "
                   + what + ", so this model cannot be read token by token");
}

/// A place is a row: every value but the loss is [window, ...].
void check_places(const Graph& graph, const Op& op, uint64_t window) {
  const auto has_places = [&](uint32_t value) {
    const auto& shape = graph.values[value].shape;
    return !shape.empty() && shape.front() == window
           && (shape.size() > 1
               || graph.values[value].type != ValueType::float32);
  };
  if (!has_places(op.output)
      || !std::all_of(op.inputs.begin(), op.inputs.end(), has_places))
    refuse(op, "has no place for each token");
}

void check_operator_kind(const Op& op) {
  const auto& attributes = op.attributes;
  switch (op.kind) {
    case OpKind::attention:
      if (!attributes.causal)
        refuse(op, "looks at later places (causal = false)");
      return;
    case OpKind::concat:
    case OpKind::slice:
      if (attributes.axis == 0)
        refuse(op, "works along the places");
      return;
    case OpKind::transpose:
      if (attributes.permutation.front() != 0)
        refuse(op, "moves the places");
      return;
    case OpKind::dense:
    case OpKind::layer_norm:
    case OpKind::rms_norm:
    case OpKind::activation:
    case OpKind::softmax:
    case OpKind::dropout:
    case OpKind::embedding:
    case OpKind::rotary:
    case OpKind::swiglu:
    case OpKind::reshape:
    case OpKind::add:
    case OpKind::multiply:
    case OpKind::bias:
      return;
    default:
      refuse(op, "looks at several places");
  }
}

/// The graph of one place. Parameters stay, those of `bias` for all places too.
Graph of_one_place(Graph graph, uint64_t window) {
  for (const auto& op : graph.ops) {
    if (&op == &graph.ops.back())
      break;
    check_operator_kind(op);
    check_places(graph, op, window);
  }
  for (auto& value : graph.values)
    if (!value.shape.empty())
      value.shape.front() = 1;
  for (auto& op : graph.ops)
    if (op.kind == OpKind::reshape)
      op.attributes.shape.front() = 1;
  return graph;
}

uint64_t window_of(const Graph& graph) {
  if (graph.sample.label != LabelKind::tokens || !graph.ids_value)
    throw UsageError("the model is for "
                     + std::string{to_string(graph.sample.label)}
                     + ", not for text: it predicts no next token");
  return graph.ids();
}

} // namespace

IncrementalPass::IncrementalPass(const Graph& graph)
  : graph_(of_one_place(graph, window_of(graph))),
    layout_(graph_),
    window_(graph.ids()),
    operators_(graph.ops.size()),
    args_(graph.ops.size()),
    kept_(graph.ops.size()),
    values_(graph.values.size()),
    at_(graph.values.size()) {
  uint64_t saved = 0;
  uint64_t scratch = 0;
  for (size_t i = 0; i + 1 < graph_.ops.size(); ++i) {
    prepare(i);
    if (operators_[i]) {
      const auto needs = operators_[i]->needs();
      saved = std::max(saved, needs.saved.of(max_rows));
      scratch = std::max(scratch, needs.scratch.of(max_rows));
    }
    if (graph_.ops[i].kind == OpKind::attention) {
      scratch = std::max<uint64_t>(scratch,
                                   attention_scratch(kept_[i].attention));
      mixing_end_ = i + 1;
    }
  }
  saved_ = Buffer{saved};
  scratch_ = Buffer{scratch};
}

/// What an operator of the window needs, and where its output is.
void IncrementalPass::prepare(size_t i) {
  const auto& op = graph_.ops[i];
  auto& kept = kept_[i];
  const auto width = graph_.values[op.inputs[0]].shape.back();
  switch (op.kind) {
    case OpKind::dropout:
    case OpKind::reshape:
      return; // the input's memory
    case OpKind::attention:
      kept.attention = attention_shape(
        op.attributes, {window_, graph_.values[op.output].shape.back()});
      kept.keys = Buffer{key_cache_size(kept.attention)};
      kept.values = Buffer{value_cache_size(kept.attention)};
      kept.keys.fill(0);
      kept.values.fill(0);
      break;
    case OpKind::rotary:
      kept.rotary = rotary_shape(op.attributes, width);
      kept.turns = turns_for(i);
      break;
    case OpKind::bias:
      break;
    default:
      operators_[i] =
        make_cpu_operator({graph_, op, max_rows, Precision::float32});
      args_[i].inputs.resize(op.inputs.size());
      args_[i].parameters.resize(op.parameters.size());
  }
  values_[op.output] = Buffer{max_rows * graph_.values[op.output].size()};
}

/// Layers that turn by the same angles have them together.
std::shared_ptr<const std::vector<float>>
IncrementalPass::turns_for(size_t i) const {
  const auto& op = graph_.ops[i];
  for (size_t k = 0; k < i; ++k)
    if (kept_[k].turns && kept_[k].rotary.head == kept_[i].rotary.head
        && graph_.ops[k].attributes.base == op.attributes.base)
      return kept_[k].turns;
  return std::make_shared<const std::vector<float>>(
    rotary_turns(op.attributes, kept_[i].rotary.head, window_));
}

void IncrementalPass::run(size_t i, const float* parameters, uint32_t rows) {
  const auto& op = graph_.ops[i];
  const auto size = graph_.values[op.output].size();
  auto* output = values_[op.output].data();
  const auto* x = input(op);
  at_[op.output] = output;
  auto& kept = kept_[i];
  switch (op.kind) {
    case OpKind::dropout:
    case OpKind::reshape:
      at_[op.output] = x;
      return;
    case OpKind::attention:
      for (uint32_t r = 0; r < rows; ++r)
        attention_table().step(
          kept.attention,
          {x + r * kept.attention.stride(), output + r * size, places_ + r,
           kept.keys.data(), kept.values.data(), scratch_.data()});
      return;
    case OpKind::rotary:
      rotary_table().turn(kept.rotary,
                          {x, output,
                           kept.turns->data() + places_ * kept.rotary.head,
                           rows, false, false});
      return;
    case OpKind::bias: // a row of the parameter is a place's
      elementwise_loops().bias(
        Activation::none,
        {x, parameters + layout_.offsets[op.parameters[0]] + places_ * size,
         nullptr, output, 1, rows * size});
      return;
    default:
      break;
  }
  auto& args = args_[i];
  args.rows = rows;
  for (size_t k = 0; k < op.inputs.size(); ++k)
    args.inputs[k] = input(op, k);
  for (size_t k = 0; k < op.parameters.size(); ++k)
    args.parameters[k] = parameters + layout_.offsets[op.parameters[k]];
  args.output = output;
  args.saved = saved_.data();
  args.scratch = scratch_.data();
  operators_[i]->forward(args);
}

std::span<const float> IncrementalPass::read(const float* parameters,
                                             std::span<const int32_t> tokens) {
  require(!tokens.empty() && tokens.size() <= window_ - places_,
          "tokens beyond a model's window");
  const auto last = graph_.ops.size() - 1; // the loss
  const auto logits = graph_.ops[last].inputs[0];
  while (!tokens.empty()) {
    const auto rows =
      static_cast<uint32_t>(std::min<size_t>(tokens.size(), max_rows));
    std::fill(at_.begin(), at_.end(), nullptr);
    at_[*graph_.ids_value] = reinterpret_cast<const float*>(tokens.data());
    for (size_t i = 0; i < mixing_end_; ++i)
      run(i, parameters, rows);
    tokens = tokens.subspan(rows);
    // Of what follows nobody needs more than the last place.
    if (tokens.empty()) {
      for (size_t value = 0; value < at_.size(); ++value)
        if (at_[value] != nullptr)
          at_[value] += (rows - 1) * graph_.values[value].size();
      places_ += rows - 1;
      for (size_t i = mixing_end_; i < last; ++i)
        run(i, parameters, 1);
      places_ += 1;
    } else {
      places_ += rows;
    }
  }
  return {at_[logits], graph_.values[logits].size()};
}

} // namespace troupe::kernels
