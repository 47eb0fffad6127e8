#include "kernels/graph/graph.hpp"

#include "kernels/error.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/random.hpp"
#include "kernels/require.hpp"

#include <charconv>
#include <cmath>
#include <string_view>

namespace troupe {

namespace {

using kernels::require;

constexpr uint64_t max_width = 1u << 20;
constexpr uint64_t max_parameters = uint64_t{1} << 32;

std::vector<uint32_t> parse_widths(const std::string& model,
                                   std::string_view text) {
  std::vector<uint32_t> widths;
  for (;;) {
    auto dash = text.find('-');
    auto item = text.substr(0, dash);
    uint32_t width = 0;
    auto [end, error] = std::from_chars(item.data(), item.data() + item.size(),
                                        width);
    if (error != std::errc{} || end != item.data() + item.size() || width == 0
        || width > max_width)
      throw UsageError("--model " + model + ": width '" + std::string(item)
                       + "' is not a number from 1 to "
                       + std::to_string(max_width)
                       + "; write e.g. mlp:784-512-256-10");
    widths.push_back(width);
    if (dash == std::string_view::npos)
      return widths;
    text.remove_prefix(dash + 1);
  }
}

Graph make_mlp(const std::string& model, std::string_view text,
               const SampleShape& sample) {
  auto widths = parse_widths(model, text);
  if (widths.size() < 2)
    throw UsageError("--model " + model
                     + ": an mlp needs at least two widths, those of its "
                       "input and output; write e.g. mlp:784-512-256-10");
  Graph graph;
  graph.text = model;
  graph.sample = sample;
  graph.values.push_back({"features", {widths.front()}, ValueType::float32});
  graph.features_value = 0;
  if (sample.known() && elements(sample.features) != widths.front())
    throw InputError(
      "model " + model + " takes " + std::to_string(widths.front())
      + " inputs but the data has " + std::to_string(elements(sample.features))
      + " features a sample: change the first width of --model");
  if (sample.known() && sample.classes > widths.back())
    throw InputError("model " + model + " has " + std::to_string(widths.back())
                     + " outputs but the data has "
                     + std::to_string(sample.classes)
                     + " classes: change the last width of --model");
  auto layers = static_cast<uint32_t>(widths.size() - 1);
  for (uint32_t i = 0; i < layers; ++i) {
    auto name = "dense_" + std::to_string(i);
    uint64_t inputs = widths[i];
    uint64_t outputs = widths[i + 1];
    graph.parameters.push_back(
      {name + "/weight", {inputs, outputs}, Initializer::he_uniform, inputs});
    graph.parameters.push_back(
      {name + "/bias", {outputs}, Initializer::zeros, inputs});
    graph.parameters.back().decays = false;
    graph.values.push_back({name, {outputs}, ValueType::float32});
    Op op{OpKind::dense, name, {i}, i + 1, {2 * i, 2 * i + 1}, {}};
    op.attributes.units = outputs;
    op.attributes.activation = i + 1 < layers ? Activation::relu
                                              : Activation::none;
    graph.ops.push_back(std::move(op));
  }
  graph.values.push_back({"loss", {}, ValueType::float32});
  graph.ops.push_back(
    {OpKind::softmax_cross_entropy, "loss", {layers}, layers + 1, {}, {}});
  if (graph.parameter_count() > max_parameters)
    throw UsageError(
      "--model " + model + ": " + std::to_string(graph.parameter_count())
      + " parameters are more than the " + std::to_string(max_parameters)
      + " supported; use smaller widths");
  return graph;
}

} // namespace

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

uint64_t Graph::flops_per_sample() const {
  uint64_t result = 0;
  for (const auto& op : ops) {
    if (op.kind != OpKind::dense)
      continue;
    auto product = 2 * parameters[op.parameters[0]].size();
    result += product * (op.inputs[0] == 0 ? 2 : 3);
  }
  return result;
}

Graph make_graph(const std::string& model, const SampleShape& sample) {
  auto colon = model.find(':');
  auto kind = std::string_view(model).substr(0, colon);
  auto rest = colon == std::string::npos
                ? std::string_view()
                : std::string_view(model).substr(colon + 1);
  if (kind == "mlp")
    return make_mlp(model, rest, sample);
  for (std::string_view later : {"sleep", "cnn", "resnet20", "transformer",
                                 "dlrm", "wide_deep", "logreg"})
    if (kind == later)
      throw UsageError("--model " + model
                       + ": not available yet; use mlp:784-512-256-10");
  if (model.find('/') != std::string::npos
      || model.find('.') != std::string::npos)
    throw UsageError("--model " + model
                     + ": models from a file are not available yet; use "
                       "mlp:784-512-256-10");
  throw UsageError("--model " + model
                   + ": unknown model; use mlp:784-512-256-10");
}

Layout::Layout(const Graph& graph) {
  offsets.reserve(graph.parameters.size());
  for (const auto& parameter : graph.parameters) {
    offsets.push_back(total);
    total += (parameter.size() + 15) / 16 * 16;
  }
}

void initialize(const Graph& graph, uint64_t seed, uint32_t parameter,
                uint64_t offset, float* out, uint64_t count) {
  require(parameter < graph.parameters.size(), "no such parameter");
  const auto& what = graph.parameters[parameter];
  require(offset <= what.size() && count <= what.size() - offset,
          "a slice ends outside its parameter");
  switch (what.initializer) {
    case Initializer::zeros:
    case Initializer::ones: {
      auto value = what.initializer == Initializer::ones ? 1.0f : 0.0f;
      for (uint64_t i = 0; i < count; ++i)
        out[i] = value;
      return;
    }
    case Initializer::uniform:
    case Initializer::normal:
      require(false, "not yet");
      return;
    case Initializer::he_uniform: {
      auto bound =
        static_cast<float>(std::sqrt(6.0 / static_cast<double>(what.fan_in)));
      auto key = kernels::stream_key(seed, parameter);
      for (uint64_t i = 0; i < count; ++i) {
        // 24 bits, centred: k + 0.5 for k in [-2^23, 2^23), exact in float
        // until the one rounding of the product.
        auto bits =
          static_cast<int32_t>(kernels::random_bits(key, offset + i) >> 40)
          - (1 << 23);
        auto unit = (static_cast<double>(bits) + 0.5) * 0x1p-23;
        out[i] = static_cast<float>(unit * bound);
      }
      return;
    }
  }
}

} // namespace troupe
