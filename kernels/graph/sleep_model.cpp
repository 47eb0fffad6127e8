#include "kernels/graph/sleep_model.hpp"

#include "kernels/error.hpp"

#include <charconv>
#include <string_view>

namespace troupe {

namespace {

constexpr std::string_view sleeps = "sleep:";
constexpr std::string_view counts = "count:";
constexpr uint32_t longest_ms = 60'000;
constexpr uint64_t most_parameters = uint64_t{1} << 30;
constexpr uint32_t window = 64; // of text

bool read(std::string_view text, uint64_t& number) {
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(),
                                       number);
  return error == std::errc{} && stop == text.data() + text.size();
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
  auto time = text.substr(0, dash);
  const bool has_unit = time.ends_with("ms");
  time.remove_suffix(has_unit ? 2 : 0);
  uint64_t ms = 0;
  uint64_t parameters = 1;
  const bool counted = dash == std::string_view::npos
                       || read(text.substr(dash + 1), parameters);
  if (!has_unit || !read(time, ms) || ms > longest_ms || !counted
      || parameters < 1 || parameters > most_parameters)
    throw UsageError("--model " + model
                     + ": expected sleep:Tms or count:Tms with T up to 60000, "
                       "and then -N for N parameters up to 2^30; for example "
                       "sleep:20ms");
  return SleepModel{static_cast<uint32_t>(ms), parameters, counting};
}

namespace {

bool has_rows(const SampleShape& sample) {
  return sample.ids > 0 && sample.label != LabelKind::tokens;
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
  if (graph.sample.label == LabelKind::tokens && graph.sample.ids == 0)
    graph.sample.ids = window;
  if (graph.sample.label == LabelKind::tokens) { // windows are cut to its size
    graph.ids_value = 0;
    graph.values.push_back({"ids", {graph.sample.ids}, ValueType::int32});
  } else {
    graph.values.push_back({"nothing", {1}, ValueType::float32});
  }
  graph.values.push_back({"wait", logits_of(graph.sample), ValueType::float32});
  graph.values.push_back({"loss", {1}, ValueType::float32});
  Parameter scalar;
  scalar.name = "wait.bias";
  scalar.shape = {sleep.parameters};
  scalar.initializer = sleep.counts ? Initializer::zeros : Initializer::uniform;
  scalar.scale = sleep.counts ? 0 : 1;
  scalar.decays = false;
  graph.parameters.push_back(scalar);
  Op wait;
  wait.kind = OpKind::bias;
  wait.name = "wait";
  wait.inputs = {0};
  wait.output = 1;
  wait.parameters = {0};
  graph.ops.push_back(wait);
  Op loss;
  loss.kind = loss_of(graph.sample.label);
  loss.name = "loss";
  loss.inputs = {1};
  loss.output = 2;
  graph.ops.push_back(loss);
  if (has_rows(graph.sample))
    add_table(graph, sleep);
  return graph;
}

} // namespace troupe
