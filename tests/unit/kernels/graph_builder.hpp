#pragma once

#include "kernels/graph/graph.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

/// Makes graphs, operator by operator.
class Builder {
public:
  explicit Builder(Shape features) {
    graph.values.push_back({"features", std::move(features)});
    graph.features_value = 0;
  }

  Graph graph;

  const Shape& shape(uint32_t value) const { return graph.values[value].shape; }

  uint32_t parameter(Shape shape) {
    Parameter parameter;
    parameter.name = "p" + std::to_string(graph.parameters.size());
    parameter.shape = std::move(shape);
    graph.parameters.push_back(parameter);
    return static_cast<uint32_t>(graph.parameters.size() - 1);
  }

  uint32_t op(OpKind kind, std::vector<uint32_t> inputs, Shape output,
              std::vector<uint32_t> parameters = {},
              const OpAttributes& attributes = {}) {
    const auto name = "op" + std::to_string(graph.ops.size());
    const auto value = static_cast<uint32_t>(graph.values.size());
    graph.values.push_back({name, std::move(output)});
    graph.ops.push_back({kind, name, std::move(inputs), value,
                         std::move(parameters), attributes});
    return value;
  }

  uint32_t dense(uint32_t x, uint64_t units, uint32_t weight,
                 std::optional<uint32_t> bias = {},
                 Activation activation = Activation::none,
                 bool transposed = false) {
    OpAttributes attributes;
    attributes.units = units;
    attributes.activation = activation;
    attributes.bias = bias.has_value();
    attributes.transposed = transposed;
    auto output = shape(x);
    output.back() = units;
    std::vector<uint32_t> parameters{weight};
    if (bias)
      parameters.push_back(*bias);
    return op(OpKind::dense, {x}, output, parameters, attributes);
  }

  uint32_t activation(uint32_t x, Activation kind) {
    OpAttributes attributes;
    attributes.activation = kind;
    return op(OpKind::activation, {x}, shape(x), {}, attributes);
  }

  uint32_t dropout(uint32_t x, float rate) {
    OpAttributes attributes;
    attributes.rate = rate;
    return op(OpKind::dropout, {x}, shape(x), {}, attributes);
  }

  uint32_t reshape(uint32_t x, const Shape& to) {
    OpAttributes attributes;
    attributes.shape = to;
    return op(OpKind::reshape, {x}, to, {}, attributes);
  }

  uint32_t softmax_loss(uint32_t x) {
    return op(OpKind::softmax_cross_entropy, {x}, {});
  }
};

/// Draws a graph of 3 to 12 operators and a loss: operators of many kinds on
/// values drawn from those there are, so that some are read by several, some in
/// place, some under other names; parameters are shared where their shapes
/// allow. In the end all that nobody read is joined.
Graph random_graph(uint32_t seed);

} // namespace troupe::test
