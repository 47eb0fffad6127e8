#include "tests/unit/kernels/float64_graph.hpp"

#include "kernels/numbers/random.hpp"
#include "tests/unit/kernels/activation_reference.hpp"
#include "tests/unit/kernels/embedding_reference.hpp"
#include "tests/unit/kernels/matrix_reference.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace troupe::test {

namespace {

using Values = std::vector<double>;

class Interpreter {
public:
  Interpreter(const Graph& graph, const Values& parameters,
              const GraphInputs& inputs)
    : graph_(graph),
      layout_(graph),
      parameters_(parameters),
      inputs_(inputs),
      values_(graph.values.size()) {
    if (graph.features_value)
      values_[*graph.features_value] = inputs.features;
    if (graph.ids_value)
      values_[*graph.ids_value].assign(inputs.ids.begin(), inputs.ids.end());
  }

  double run() {
    for (size_t i = 0; i < graph_.ops.size(); ++i)
      values_[graph_.ops[i].output] = compute(i);
    return values_[graph_.loss().output].at(0);
  }

private:
  Values compute(size_t i) {
    const auto& op = graph_.ops[i];
    switch (op.kind) {
      case OpKind::dense:
        return dense(op);
      case OpKind::layer_norm:
      case OpKind::rms_norm:
        return norm(op);
      case OpKind::activation:
        return activate(op, x(op));
      case OpKind::softmax:
        return softmax(op);
      case OpKind::dropout:
        return dropout(op, i);
      case OpKind::add:
      case OpKind::multiply:
        return combine(op);
      case OpKind::bias: {
        auto y = x(op);
        for (size_t k = 0; k < y.size(); ++k)
          y[k] += parameter(op, 0, k % size(op.output));
        return y;
      }
      case OpKind::concat:
      case OpKind::slice:
      case OpKind::transpose:
        return move(op);
      case OpKind::reshape:
        return x(op);
      case OpKind::embedding:
      case OpKind::embedding_bag:
        return embedding(op);
      case OpKind::attention:
        return attention(op);
      case OpKind::rotary:
        return rotary(op);
      case OpKind::swiglu:
        return gated_rows(x(op), columns(op) / 2);
      case OpKind::interaction:
      case OpKind::factorization:
        return interaction(op);
      case OpKind::softmax_cross_entropy:
      case OpKind::sigmoid_cross_entropy:
      case OpKind::mean_squared_error:
        return {loss(op)};
      default:
        throw std::logic_error("no float64 reference of " + op.name);
    }
  }

  const Values& x(const Op& op, size_t k = 0) const {
    return values_[op.inputs[k]];
  }
  const Shape& shape(uint32_t value) const {
    return graph_.values[value].shape;
  }
  uint64_t size(uint32_t value) const { return elements(shape(value)); }
  size_t columns(const Op& op) const { return shape(op.inputs[0]).back(); }
  double parameter(const Op& op, size_t which, size_t k) const {
    return parameters_[layout_.offsets[op.parameters[which]] + k];
  }
  /// Null where the operator has none.
  const double* parameters(const Op& op, size_t which) const {
    return which < op.parameters.size()
             ? &parameters_[layout_.offsets[op.parameters[which]]]
             : nullptr;
  }

  static Values activate(const Op& op, Values y) {
    for (auto& value : y)
      value = activated(op.attributes.activation, value);
    return y;
  }

  Values dense(const Op& op) const {
    return activate(
      op, dense_rows(x(op), columns(op), parameters(op, 0), op.attributes.units,
                     op.attributes.transposed, parameters(op, 1)));
  }

  Values norm(const Op& op) const {
    auto y = x(op);
    norm_rows(y, columns(op), op.kind == OpKind::layer_norm,
              double{op.attributes.epsilon}, parameters(op, 0),
              parameters(op, 1));
    return y;
  }

  Values softmax(const Op& op) const {
    auto y = x(op);
    softmax_rows(y, columns(op));
    return y;
  }

  Values dropout(const Op& op, size_t index) const {
    auto y = x(op);
    const auto rate = op.attributes.rate;
    const auto stream = kernels::stream_key(inputs_.key, index);
    for (size_t i = 0; inputs_.training && i < y.size(); ++i)
      y[i] = static_cast<long long>(kernels::random_bits(stream, i) >> 40)
                 >= std::llround(rate * 0x1p24)
               ? y[i] / (1 - double{rate})
               : 0.0;
    return y;
  }

  Values combine(const Op& op) const {
    auto y = x(op);
    for (size_t k = 1; k < op.inputs.size(); ++k)
      for (size_t i = 0; i < y.size(); ++i)
        if (op.kind == OpKind::add)
          y[i] += x(op, k)[i];
        else
          y[i] *= x(op, k)[i];
    return op.kind == OpKind::add ? activate(op, y) : y;
  }

  Values move(const Op& op) const {
    const auto& to = shape(op.output);
    Values y(inputs_.rows * elements(to));
    for (size_t i = 0; i < y.size(); ++i) {
      std::vector<size_t> at(to.size());
      auto rest = i % elements(to);
      for (size_t k = to.size(); k-- > 0; rest /= to[k])
        at[k] = rest % to[k];
      auto from = at;
      size_t input = 0;
      const auto axis = op.attributes.axis;
      if (op.kind == OpKind::slice)
        from[axis] += op.attributes.begin;
      else if (op.kind == OpKind::transpose)
        for (size_t k = 0; k < at.size(); ++k)
          from[op.attributes.permutation[k]] = at[k];
      else
        while (from[axis] >= shape(op.inputs[input])[axis])
          from[axis] -= shape(op.inputs[input++])[axis];
      const auto& source = shape(op.inputs[input]);
      size_t index = i / elements(to);
      for (size_t k = 0; k < source.size(); ++k)
        index = index * source[k] + from[k];
      y[i] = x(op, input)[index];
    }
    return y;
  }

  Values embedding(const Op& op) const {
    const auto width = shape(op.output).back();
    const bool bag = op.kind == OpKind::embedding_bag;
    const auto n = bag ? size(op.inputs[0]) : 1;
    Values y(x(op).size() / n * width);
    for (size_t i = 0; i < y.size() / width; ++i)
      add_bag(
        &x(op)[i * n], op.inputs.size() > 1 ? &x(op, 1)[i * n] : nullptr, n,
        width, op.attributes.mode,
        [&](size_t k) { return parameter(op, 0, k); }, &y[i * width]);
    return y;
  }

  Values attention(const Op& op) const {
    const auto of = heads_of(op);
    Values y(inputs_.rows * of.length * of.width());
    for (size_t r = 0; r < inputs_.rows; ++r)
      for (size_t h = 0; h < of.queries; ++h)
        attend(of, h, &x(op)[r * of.length * of.stride()],
               &y[r * of.length * of.width()], op.attributes.causal);
    return y;
  }

  Values rotary(const Op& op) const {
    const auto of = heads_of(op);
    auto y = x(op);
    for (size_t r = 0; r < inputs_.rows; ++r)
      turn_heads(of, &y[r * of.length * of.stride()], op.attributes.base,
                 op.attributes.interleaved);
    return y;
  }

  PackedHeads heads_of(const Op& op) const {
    const auto& from = shape(op.inputs[0]);
    const size_t queries = op.attributes.heads;
    const size_t keys = op.attributes.key_heads();
    return {from[0], from[1] / (queries + 2 * keys), queries, keys};
  }

  Values interaction(const Op& op) const {
    const auto n = shape(op.inputs[0])[0];
    const auto width = columns(op);
    const auto outputs = size(op.output);
    Values y(inputs_.rows * outputs);
    for (size_t r = 0; r < inputs_.rows; ++r)
      if (op.kind == OpKind::interaction)
        interact(&x(op)[r * n * width], n, width, &y[r * outputs]);
      else
        y[r] = factorize(&x(op)[r * n * width], n, width);
    return y;
  }

  double loss(const Op& op) const {
    double sum = 0;
    const auto places = graph_.labels();
    const auto n = x(op).size() / (inputs_.rows * places);
    for (size_t i = 0; i < inputs_.rows * places; ++i) {
      if (op.kind == OpKind::mean_squared_error) {
        sum += std::pow(x(op)[i] - inputs_.targets[i], 2);
      } else if (op.kind == OpKind::sigmoid_cross_entropy) {
        const auto z = x(op)[i];
        sum += std::max(z, 0.0) - z * inputs_.labels[i]
               + std::log1p(std::exp(-std::abs(z)));
      } else {
        double all = 0;
        for (size_t c = 0; c < n; ++c)
          all += std::exp(x(op)[i * n + c]);
        sum += std::log(all)
               - x(op)[i * n + static_cast<size_t>(inputs_.labels[i])];
      }
    }
    return sum / static_cast<double>(places);
  }

  const Graph& graph_;
  Layout layout_;
  const Values& parameters_;
  const GraphInputs& inputs_;
  std::vector<Values> values_;
};

} // namespace

double float64_loss(const Graph& graph, const std::vector<double>& parameters,
                    const GraphInputs& inputs) {
  return Interpreter(graph, parameters, inputs).run();
}

} // namespace troupe::test
