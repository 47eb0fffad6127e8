#include "kernels/graph/sleep_model.hpp"

#include "kernels/base/error.hpp"

#include <charconv>
#include <string_view>

namespace troupe {

namespace {

constexpr std::string_view sleeps = "sleep:";
constexpr std::string_view counts = "count:";
constexpr uint32_t longest_ms = 60'000;
constexpr uint64_t max_parameters = uint64_t{1} << 30;
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
  const auto second = dash == std::string_view::npos ? dash
                                                     : text.find('-', dash + 1);
  auto time = text.substr(0, dash);
  const bool has_unit = time.ends_with("ms");
  time.remove_suffix(has_unit ? 2 : 0);
  uint64_t ms = 0;
  uint64_t parameters = 1;
  uint64_t beside = 0;
  const bool counted = dash == std::string_view::npos
                       || read(text.substr(dash + 1, second - dash - 1),
                               parameters);
  const bool alone = second == std::string_view::npos;
  if (!has_unit || !read(time, ms) || ms > longest_ms || !counted
      || parameters < 1 || parameters > max_parameters
      || (!alone
          && (!read(text.substr(second + 1), beside) || beside < 1
              || beside > max_parameters)))
    throw UsageError("--model " + model
                     + ": expected sleep:Tms or count:Tms with T up to 60000, "
                       "and then -N for N parameters up to 2^30, or -N-M for "
                       "M of them beside a table; for example sleep:20ms");
  return SleepModel{static_cast<uint32_t>(ms), parameters, counting, beside};
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
