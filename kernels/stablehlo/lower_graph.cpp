#include "kernels/stablehlo/lower_graph.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"
#include "kernels/graph/model_spec.hpp"
#include "kernels/stablehlo/lowered_op.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

namespace troupe::kernels::stablehlo {

namespace {

Element products_of(Precision precision) {
  return precision == Precision::bfloat16 ? Element::bf16 : Element::f32;
}

bool has(const Graph& graph, OpKind kind) {
  return std::ranges::any_of(graph.ops,
                             [&](const Op& op) { return op.kind == kind; });
}

Shape with_rows(uint32_t rows, const Shape& shape) {
  Shape out{rows};
  out.insert(out.end(), shape.begin(), shape.end());
  return out;
}

/// Writes a graph's operators forward, and backward from the loss.
class GraphWriter {
public:
  GraphWriter(const Graph& graph, uint32_t rows, bool training,
              PassProgram& out)
    : graph_(graph),
      rows_(rows),
      training_(training),
      out_(out),
      values_(graph.values.size()),
      depends_(graph.values.size(), 0) {}

  void add_parameters() {
    for (const auto& parameter : graph_.parameters)
      parameters_.push_back(out_.program.argument({parameter.shape}));
  }

  void add_batch() {
    const auto add = [&](BatchField field, TensorType type) {
      out_.batch.push_back(field);
      return out_.program.argument(std::move(type));
    };
    const auto of_value = [&](uint32_t value, Element element) {
      return TensorType{with_rows(rows_, graph_.values[value].shape), element};
    };
    if (graph_.features_value) {
      batch_.features = add(BatchField::features,
                            of_value(*graph_.features_value, Element::f32));
      values_[*graph_.features_value] = batch_.features;
    }
    if (graph_.ids_value) {
      batch_.ids = add(BatchField::ids,
                       of_value(*graph_.ids_value, Element::i32));
      values_[*graph_.ids_value] = batch_.ids;
    }
    const auto& loss = graph_.loss();
    auto labels = of_value(loss.inputs[0], Element::i32);
    if (loss.kind == OpKind::softmax_cross_entropy)
      labels.shape.pop_back();
    if (loss.kind == OpKind::mean_squared_error)
      batch_.targets = add(BatchField::targets, {labels.shape});
    else
      batch_.labels = add(BatchField::labels, labels);
    if (training_ && has(graph_, OpKind::dropout))
      batch_.key = add(BatchField::key, {{}, Element::ui64});
    if (training_ && has(graph_, OpKind::batch_norm)) {
      batch_.step_rows = add(BatchField::step_rows, {});
      batch_.step_leaves = add(BatchField::step_leaves, {});
    }
  }

  void forward() {
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const auto& op = graph_.ops[i];
      const auto* lowering = find_lowering(op.kind);
      if (lowering == nullptr)
        throw InputError("operator " + op.name + ": "
                         + troupe::to_string(op.kind)
                         + " is not written as StableHLO yet; use cpu:N");
      auto& at = ops_.emplace_back(LoweredOp{out_.program,
                                             graph_,
                                             op,
                                             op.stream.value_or(i),
                                             rows_,
                                             training_,
                                             batch_,
                                             {},
                                             {},
                                             {},
                                             {},
                                             {},
                                             {}});
      bool any = !op.parameters.empty();
      for (auto input : op.inputs) {
        require(values_[input].has_value(), "a value before its operator");
        at.inputs.push_back(*values_[input]);
        at.wants.push_back(depends_[input]);
        any = any || depends_[input];
      }
      for (auto parameter : op.parameters)
        at.parameters.push_back(parameters_[parameter]);
      at.output = lowering->forward(at);
      depends_[op.output] = any;
      values_[op.output] = at.output;
    }
    out_.counts = loss().correct.has_value();
  }

  const LossTensors& loss() const { return ops_.back().loss; }
  const Tensor& outputs() const { return ops_.back().inputs[0]; }

  /// Of each parameter.
  std::vector<Tensor> backward() {
    std::vector<std::optional<Tensor>> of_values(graph_.values.size());
    std::vector<std::optional<Tensor>> of_parameters(graph_.parameters.size());
    for (size_t i = graph_.ops.size(); i-- > 0;) {
      const auto& op = graph_.ops[i];
      const bool is_loss = i + 1 == graph_.ops.size();
      if (!is_loss && (!depends_[op.output] || !of_values[op.output]))
        continue;
      const auto given = find_lowering(op.kind)->backward(
        ops_[i], is_loss ? Tensor{} : *of_values[op.output]);
      for (size_t k = 0; k < op.inputs.size(); ++k)
        if (given.inputs[k])
          add_to(of_values[op.inputs[k]], *given.inputs[k]);
      for (size_t k = 0; k < op.parameters.size(); ++k)
        add_to(of_parameters[op.parameters[k]], given.parameters[k]);
    }
    std::vector<Tensor> out;
    for (size_t i = 0; i < of_parameters.size(); ++i)
      out.push_back(of_parameters[i]
                      ? *of_parameters[i]
                      : out_.program.constant(0, graph_.parameters[i].shape));
    return out;
  }

private:
  void add_to(std::optional<Tensor>& sum, const Tensor& part) {
    sum = sum ? out_.program.add(*sum, part) : part;
  }

  const Graph& graph_;
  uint32_t rows_;
  bool training_;
  PassProgram& out_;
  BatchTensors batch_;
  std::vector<Tensor> parameters_;
  std::vector<std::optional<Tensor>> values_;
  std::vector<uint8_t> depends_; ///< per value: on a parameter
  std::deque<LoweredOp> ops_;
};

} // namespace

PassProgram gradient_program(const Graph& graph, uint32_t rows,
                             Precision precision) {
  PassProgram out;
  out.program.compute_in(products_of(precision));
  GraphWriter writer{graph, rows, true, out};
  writer.add_parameters();
  writer.add_batch();
  writer.forward();
  out.program.result(writer.loss().losses);
  if (out.counts)
    out.program.result(*writer.loss().correct);
  for (const auto& gradient : writer.backward())
    out.program.result(gradient);
  return out;
}

Program addition_program(const Graph& graph) {
  Program out;
  std::vector<Tensor> left;
  for (uint32_t i = 0; i < graph.parameters.size(); ++i)
    left.push_back(out.argument({graph.parameters[i].shape}, i));
  for (uint32_t i = 0; i < graph.parameters.size(); ++i)
    out.result(out.add(left[i], out.argument({graph.parameters[i].shape})));
  return out;
}

PassProgram evaluation_program(const Graph& graph, uint32_t rows,
                               Precision precision) {
  PassProgram out;
  out.program.compute_in(products_of(precision));
  GraphWriter writer{graph, rows, false, out};
  writer.add_parameters();
  writer.add_batch();
  writer.forward();
  out.program.result(writer.loss().losses);
  if (out.counts) {
    out.program.result(*writer.loss().correct);
    out.program.result(*writer.loss().classes);
  }
  out.program.result(writer.outputs());
  return out;
}

} // namespace troupe::kernels::stablehlo
