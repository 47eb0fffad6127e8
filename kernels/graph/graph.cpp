#include "kernels/graph/graph.hpp"

#include "kernels/graph/forward_flops.hpp"

#include <array>

namespace troupe {

uint64_t elements(const Shape& shape) {
  uint64_t result = 1;
  for (auto extent : shape)
    result *= extent;
  return result;
}

std::string to_string(const Shape& shape) {
  std::string result;
  for (auto extent : shape)
    result += (result.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + result + "]";
}

namespace {

constexpr std::array label_names{"classes", "binary", "number", "tokens"};

} // namespace

const char* to_string(LabelKind kind) {
  return label_names[static_cast<size_t>(kind)];
}

std::optional<LabelKind> label_kind(std::string_view text) {
  for (size_t i = 0; i < label_names.size(); ++i)
    if (text == label_names[i])
      return static_cast<LabelKind>(i);
  return std::nullopt;
}

uint64_t Graph::features() const {
  return features_value ? values[*features_value].size() : 0;
}

uint64_t Graph::ids() const {
  return ids_value ? values[*ids_value].size() : 0;
}

uint64_t Graph::labels() const {
  const auto& input = values[loss().inputs[0]].shape;
  return loss().kind == OpKind::softmax_cross_entropy
           ? elements(input) / input.back()
           : elements(input);
}

uint64_t Graph::outputs() const {
  return values[loss().inputs[0]].size();
}

uint64_t Graph::classes() const {
  switch (loss().kind) {
    case OpKind::softmax_cross_entropy:
      return values[loss().inputs[0]].shape.back();
    case OpKind::sigmoid_cross_entropy:
      return 2;
    default:
      return 0;
  }
}

uint64_t Graph::parameter_count() const {
  uint64_t result = 0;
  for (const auto& parameter : parameters)
    result += parameter.size();
  return result;
}

uint32_t min_rows(const Graph& graph) {
  for (const auto& op : graph.ops)
    if (op.kind == OpKind::batch_norm) {
      const auto& shape = graph.values[op.output].shape;
      if (elements(shape) == shape.back())
        return 2;
    }
  return 1;
}

uint64_t forward_flops(const Graph& graph, const Op& op) {
  const auto& input = graph.values[op.inputs[0]].shape;
  const auto& output = graph.values[op.output].shape;
  switch (op.kind) {
    case OpKind::dense: {
      const auto weight = graph.parameters[op.parameters[0]].size();
      return 2 * weight * (elements(input) / input.back());
    }
    case OpKind::conv2d: {
      const auto& weight = graph.parameters[op.parameters[0]].shape;
      return 2 * elements(output) * weight[0] * weight[1] * weight[2];
    }
    case OpKind::attention: {
      // Query by key and weights by value, of all pairs that see each other.
      const auto length = input[0];
      const auto pairs = op.attributes.causal ? length * (length + 1) / 2
                                              : length * length;
      return 2 * 2 * pairs * output[1];
    }
    default:
      return 0;
  }
}

uint64_t Graph::flops_of(size_t op) const {
  std::vector<uint8_t> wanted(values.size(), 0); // a gradient is asked for
  for (size_t i = 0; i < op; ++i) {
    bool any = !ops[i].parameters.empty();
    for (auto input : ops[i].inputs)
      any = any || wanted[input];
    wanted[ops[i].output] = any;
  }
  const auto once = forward_flops(*this, ops[op]);
  const bool passes_on = wanted[ops[op].inputs[0]];
  if (ops[op].kind == OpKind::attention)
    return passes_on ? 3 * once : once;
  return passes_on ? 3 * once : 2 * once;
}

uint64_t Graph::flops_per_sample() const {
  uint64_t result = 0;
  for (size_t i = 0; i < ops.size(); ++i)
    result += flops_of(i);
  return result;
}

Layout::Layout(const Graph& graph) {
  offsets.reserve(graph.parameters.size());
  for (const auto& parameter : graph.parameters) {
    offsets.push_back(total);
    total += (parameter.size() + 15) / 16 * 16;
  }
}

Layout::Layout(const Graph& graph, const std::vector<uint32_t>& parameters)
  : offsets(graph.parameters.size(), nowhere) {
  for (auto parameter : parameters) {
    offsets[parameter] = total;
    total += (graph.parameters[parameter].size() + 15) / 16 * 16;
  }
}

} // namespace troupe
