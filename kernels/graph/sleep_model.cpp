#include "kernels/graph/sleep_model.hpp"

#include "kernels/base/error.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

namespace troupe {

namespace {

constexpr std::string_view sleeps = "sleep:";
constexpr std::string_view counts = "count:";
constexpr uint32_t longest_ms = 60'000;
constexpr uint64_t max_parameters = uint64_t{1} << 30;
constexpr size_t max_layers = 1000;
constexpr uint32_t window = 64; // of text

bool read(std::string_view text, uint64_t& number) {
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(),
                                       number);
  return error == std::errc{} && stop == text.data() + text.size();
}

bool read_ms(std::string_view text, uint32_t& ms) {
  if (!text.ends_with("ms"))
    return false;
  text.remove_suffix(2);
  uint64_t number = 0;
  if (!read(text, number) || number > longest_ms)
    return false;
  ms = static_cast<uint32_t>(number);
  return true;
}

/// "Tms", or "Tms+Ums+…" of layers.
bool read_times(std::string_view text, SleepModel& sleep) {
  if (text.find('+') == std::string_view::npos)
    return read_ms(text, sleep.ms);
  for (size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find('+', at), text.size());
    if (!read_ms(text.substr(at, end - at), sleep.layers.emplace_back()))
      return false;
    at = end + 1;
  }
  return sleep.layers.size() <= max_layers && !sleep.counts;
}

/// What the loss reads of samples of that shape.
Shape logits_of(const SampleShape& sample) {
  if (sample.label == LabelKind::tokens)
    return {sample.ids, sample.vocabulary};
  return {sample.label == LabelKind::classes ? sample.classes : uint64_t{1}};
}

OpKind loss_of(LabelKind label) {
  if (label == LabelKind::number)
    return OpKind::mean_squared_error;
  return label == LabelKind::binary ? OpKind::sigmoid_cross_entropy
                                    : OpKind::softmax_cross_entropy;
}

} // namespace

std::optional<SleepModel> sleep_model(const std::string& model) {
  const bool counting = model.starts_with(counts);
  if (!counting && !model.starts_with(sleeps))
    return std::nullopt;
  const auto text = std::string_view{model}.substr(sleeps.size());
  const auto dash = text.find('-');
  const auto second = dash == std::string_view::npos ? dash
                                                     : text.find('-', dash + 1);
  SleepModel sleep;
  sleep.counts = counting;
  const bool timed = read_times(text.substr(0, dash), sleep);
  const bool counted = dash == std::string_view::npos
                       || read(text.substr(dash + 1, second - dash - 1),
                               sleep.parameters);
  const bool alone = second == std::string_view::npos;
  if (!timed || !counted || sleep.parameters < 1
      || sleep.parameters > max_parameters
      || (!alone
          && (!sleep.layers.empty()
              || !read(text.substr(second + 1), sleep.beside)
              || sleep.beside < 1 || sleep.beside > max_parameters)))
    throw UsageError("--model " + model
                     + ": expected sleep:Tms or count:Tms with T up to 60000, "
                       "and then -N for N parameters up to 2^30, or -N-M for "
                       "M of them beside a table; or sleep:Tms+Ums+…-N for "
                       "layers of N each; for example sleep:20ms");
  return sleep;
}

namespace {

bool has_rows(const SampleShape& sample) {
  return sample.ids > 0 && sample.label != LabelKind::tokens;
}

/// Dense parameters, read by what the table gives.
void add_beside(Graph& graph, const SleepModel& sleep) {
  auto more = graph.parameters.front();
  more.name = "wait.bias";
  more.shape = {sleep.beside};
  more.by_rows = false;
  graph.parameters.push_back(more);
  graph.values.insert(graph.values.begin() + 2, graph.values[1]);
  auto op = graph.ops.front();
  op.kind = OpKind::bias;
  op.name = "beside";
  op.inputs = {1};
  op.output = 2;
  op.parameters = {1};
  graph.ops.insert(graph.ops.begin() + 1, op);
  graph.ops.back().inputs = {2};
  graph.ops.back().output = 3;
}

/// The table, whose rows of ones are read by all ids of a sample.
void add_table(Graph& graph, const SleepModel& sleep) {
  graph.ids_value = 0;
  graph.values.front() = {"ids", {graph.sample.ids}, ValueType::int32};
  auto& table = graph.parameters.front();
  table.name = "wait.table";
  table.shape = {graph.sample.vocabulary, sleep.parameters};
  table.initializer = sleep.counts ? Initializer::zeros : Initializer::ones;
  table.by_rows = true;
  auto& wait = graph.ops.front();
  wait.kind = OpKind::embedding_bag;
  wait.attributes.vocabulary = graph.sample.vocabulary;
  if (sleep.beside > 0)
    add_beside(graph, sleep);
}

} // namespace

namespace {

void add_layer(Graph& graph, const std::string& name, uint32_t input,
               Shape output, const SleepModel& sleep) {
  Parameter values;
  values.name = name + ".bias";
  values.shape = {sleep.parameters};
  values.initializer = sleep.counts ? Initializer::zeros : Initializer::uniform;
  values.scale = sleep.counts ? 0 : 1;
  values.decays = false;
  Op wait;
  wait.kind = OpKind::bias;
  wait.name = name;
  wait.inputs = {input};
  wait.output = static_cast<uint32_t>(graph.values.size());
  wait.parameters = {static_cast<uint32_t>(graph.parameters.size())};
  graph.values.push_back({name, std::move(output), ValueType::float32});
  graph.parameters.push_back(values);
  graph.ops.push_back(wait);
}

/// One number of a sample goes from layer to layer.
void add_layers(Graph& graph, const SleepModel& sleep) {
  const auto logits = logits_of(graph.sample);
  if (sleep.layers.empty()) {
    add_layer(graph, "wait", 0, logits, sleep);
    return;
  }
  for (uint32_t i = 0; i < sleep.layers.size(); ++i)
    add_layer(graph, "wait_" + std::to_string(i), i,
              i + 1 < sleep.layers.size() ? Shape{1} : logits, sleep);
}

} // namespace

Graph sleep_graph(const std::string& model, const SleepModel& sleep,
                  const SampleShape& sample) {
  Graph graph;
  graph.text = model;
  graph.sample = sample;
  if (!sample.known()) {
    graph.sample.features = {784};
    graph.sample.classes = 10;
  }
  if (!sample.known() && sleep.beside > 0) { // there will be rows
    graph.sample.label = LabelKind::binary;
    graph.sample.ids = 1;
    graph.sample.vocabulary = 1'000'000;
  }
  if (sleep.beside > 0 && !has_rows(graph.sample))
    throw UsageError("--model " + model
                     + ": has no table to put parameters beside, for samples "
                       "without ids; leave out the second number");
  if (graph.sample.label == LabelKind::tokens && graph.sample.ids == 0)
    graph.sample.ids = window;
  if (graph.sample.label == LabelKind::tokens) { // windows are cut to its size
    graph.ids_value = 0;
    graph.values.push_back({"ids", {graph.sample.ids}, ValueType::int32});
  } else {
    graph.values.push_back({"nothing", {1}, ValueType::float32});
  }
  add_layers(graph, sleep);
  Op loss;
  loss.kind = loss_of(graph.sample.label);
  loss.name = "loss";
  loss.inputs = {graph.ops.back().output};
  loss.output = loss.inputs.front() + 1;
  graph.values.push_back({"loss", {1}, ValueType::float32});
  graph.ops.push_back(loss);
  if (has_rows(graph.sample) && sleep.layers.empty())
    add_table(graph, sleep);
  return graph;
}

} // namespace troupe
