#include "actors/job/trained_model.hpp"

#include "kernels/base/error.hpp"
#include "kernels/checkpoint/read_checkpoint.hpp"
#include "kernels/checkpoint/write_checkpoint.hpp"
#include "kernels/columns/fitted_columns.hpp"
#include "kernels/data/text.hpp"
#include "kernels/engine/executor.hpp"
#include "kernels/files/free_memory.hpp"
#include "kernels/files/safetensors.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/files/text_lines.hpp"
#include "kernels/graph/hugging_face.hpp"
#include "kernels/graph/virtual_slices.hpp"
#include "kernels/numbers/auc.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <future>
#include <limits>
#include <numeric>
#include <system_error>

namespace troupe {

namespace {

constexpr uint64_t max_rows = 256;
constexpr uint64_t max_elements = 16 << 20; ///< of a micro-batch's values

/// Rows of a micro-batch: a property of the graph, so that scores are too.
uint32_t rows_of(const Graph& graph) {
  uint64_t row = 1;
  for (const auto& value : graph.values)
    row += value.size();
  return static_cast<uint32_t>(
    std::clamp<uint64_t>(max_elements / row, 1, max_rows));
}

/// Bytes of a list of names in a line.
constexpr size_t max_names = 120;

/// A tensor of the file that no parameter is called as.
std::string stranger_in(const SafetensorsFile& file,
                        const std::vector<Parameter>& parameters) {
  for (const auto& tensor : file.tensors)
    if (std::ranges::none_of(parameters, [&](const Parameter& x) {
          return x.name == tensor.name;
        }))
      return shown_text(tensor.name);
  return {};
}

/// As transformers calls them, in a folder with config.json.
constexpr std::array hugging_face_files{"model.safetensors",
                                        "model.safetensors.index.json"};

/// The file itself, or that of a checkpoint's folder, or of the newest whole
/// one in a folder of them, or of a folder of Hugging Face's.
std::string weights_file(const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::is_directory(path, failure))
    return path;
  const std::string name = "/parameters.safetensors";
  if (std::filesystem::exists(path + '/' + manifest_name, failure))
    return path + name;
  for (const auto* file : hugging_face_files)
    if (std::filesystem::exists(path + '/' + file, failure))
      return path + '/' + file;
  std::vector<DamagedCheckpoint> damaged;
  if (const auto newest = open_newest(path, damaged))
    return newest->folder() + name;
  throw InputError(path
                   + ": is a folder without a whole checkpoint, and without "
                     "model.safetensors; name a file or the --checkpoint-dir "
                     "of a run");
}

/// A file beside weights that transformers would read with them; empty: there
/// is none, or they are not in such a folder.
std::string beside(const std::string& path, const char* name) {
  const std::filesystem::path weights{weights_file(path)};
  const auto other = weights.parent_path() / name;
  std::error_code failure;
  return std::ranges::find(hugging_face_files, weights.filename().string())
               != hugging_face_files.end()
             && std::filesystem::is_regular_file(
               weights.parent_path() / "config.json", failure)
             && std::filesystem::is_regular_file(other, failure)
           ? other.string()
           : "";
}

/// That of a folder of Hugging Face's; null where there is none, or one of a
/// kind that is not read.
std::shared_ptr<FittedColumns> tokenizer_beside(const std::string& path) {
  const auto file = beside(path, "tokenizer.json");
  if (file.empty())
    return nullptr;
  try {
    auto out = std::make_shared<FittedColumns>();
    out->tokenizer = read_tokenizer(file, nullptr).json();
    return out;
  } catch (const InputError&) {
    return nullptr;
  }
}

/// Whether a checkpoint has rows of tables beside its whole tensors.
bool has_tables(const std::string& path) {
  std::error_code failure;
  return std::filesystem::exists(
    std::filesystem::path{weights_file(path)}.replace_filename(
      "tables.safetensors"),
    failure);
}

const NamedTensor& tensor_of(const SafetensorsFile& file,
                             const Parameter& parameter,
                             const std::string& where) {
  for (const auto& tensor : file.tensors) {
    if (tensor.name != parameter.name)
      continue;
    if (tensor.shape != parameter.shape)
      throw InputError(where + ": tensor " + tensor.name + " is "
                       + to_string(tensor.shape) + " but the model needs "
                       + to_string(parameter.shape)
                       + "; give the --model it was trained with; layouts of "
                         "other frameworks: docs/from_pytorch.md");
    return tensor;
  }
  if (has_tables(where))
    throw InputError(where + ": has " + parameter.name
                     + " by rows, on shards, and not whole; resume it with "
                       "--save FILE, which has all of it, or train with "
                       "--tables dense");
  std::string there;
  for (const auto& tensor : file.tensors)
    if (there.size() < max_names)
      there += (there.empty() ? "" : ", ") + shown_text(tensor.name);
  throw InputError(where + ": tensor " + parameter.name
                   + " is missing, there are " + there
                   + "; give the --model it was trained with, or names as "
                     "docs/from_pytorch.md has them");
}

/// One replica's memory, used by one thread at a time.
struct Lane {
  Lane(const Graph& graph, DeviceId device)
    : rows(rows_of(graph)),
      replica(make_replica(graph, device, static_cast<uint32_t>(rows.size()))),
      batch(graph, static_cast<uint32_t>(rows.size())),
      ids(graph.ids()) {}
  std::vector<uint64_t> rows;
  std::unique_ptr<Replica> replica;
  BatchMemory batch;
  size_t ids; ///< of a sample
};

LeafStats compute(Lane& lane, const float* parameters, const Dataset& data,
                  size_t batch, const Renumber& renumber,
                  const Predictions& predictions) {
  const auto first = uint64_t{batch} * lane.rows.size();
  auto count = static_cast<uint32_t>(
    std::min<uint64_t>(lane.rows.size(), data.samples() - first));
  std::iota(lane.rows.begin(), lane.rows.end(), first);
  data.gather(lane.rows.data(), count, lane.batch);
  if (renumber)
    renumber(lane.batch.ids(), count * lane.ids);
  return lane.replica->evaluate(parameters, lane.batch.batch(count),
                                predictions);
}

std::vector<Measure> measures_of(const Graph& graph, const Scores& scores,
                                 const Dataset& data) {
  std::vector<Measure> out;
  if (!data.labelled)
    return out;
  out.reserve(3); // GCC 12 misreads the copies of growing it
  out.push_back({"loss", scores.loss});
  switch (graph.loss().kind) {
    case OpKind::sigmoid_cross_entropy:
      out.push_back({"accuracy", scores.accuracy});
      if (data.labels.size() == scores.outputs.size())
        out.push_back({"auc", area_under_curve(scores.outputs, data.labels)});
      break;
    case OpKind::mean_squared_error:
      break;
    default:
      if (graph.sample.label == LabelKind::tokens)
        out.push_back({"perplexity", std::exp(scores.loss)});
      out.push_back({"accuracy", scores.accuracy});
  }
  return out;
}

} // namespace

std::shared_ptr<FittedColumns> kept_columns(const std::string& path) {
  const auto metadata = read_safetensors_metadata(weights_file(path));
  for (const auto* key : {"columns", "data_fit"})
    if (const auto found = metadata.find(key); found != metadata.end())
      return std::make_shared<FittedColumns>(
        fitted_columns_from_json(found->second, path));
  return tokenizer_beside(path);
}

KeptModel kept_model(const std::string& path) {
  KeptModel out;
  const auto metadata = read_safetensors_metadata(weights_file(path));
  if (const auto found = metadata.find("model"); found != metadata.end())
    out.model = out.text = found->second;
  if (const auto found = metadata.find("model_text"); found != metadata.end())
    out.text = found->second;
  if (out.model.empty())
    out.model = out.text = beside(path, "config.json");
  out.columns = kept_columns(path);
  return out;
}

uint32_t vocabulary_of(const std::string& model, const std::string& path,
                       const KeptModel& kept) {
  if (kept.columns && !kept.columns->characters.empty())
    return static_cast<uint32_t>(kept.columns->characters.size());
  std::string table;
  for (const auto& op : model_spec(model).operators)
    if (op.kind == to_string(OpKind::embedding) && table.empty())
      table = op.name + "/table";
  for (const auto& [name, shape] : read_safetensors_shapes(weights_file(path)))
    if ((name == table || is_hugging_face_table(name)) && shape.size() == 2
        && shape[0] <= std::numeric_limits<int32_t>::max())
      return static_cast<uint32_t>(shape[0]);
  throw InputError(path + ": has no table of tokens"
                   + (table.empty() ? "" : ' ' + in_quotes(table)) + ", so "
                   + (model.starts_with('{') ? "its model" : "--model " + model)
                   + " has no text to go on with; name a language model and "
                     "its weights");
}

std::string other_meaning(const Job& job, const std::string& path) {
  const auto& text = job.columns.empty() ? job.data_fit : job.columns;
  const auto theirs = kept_columns(path);
  if (text.empty()) // bytes, or ids that nothing says more of
    return theirs && !theirs->tokenizer.empty()
               && job.options.data.starts_with("text:")
             ? "tokens are not the bytes of"
             : "";
  const auto own = fitted_columns_from_json(text, "--data");
  if (!theirs || theirs->of_table() != own.of_table())
    return {};
  if (const auto column = other_values(*theirs, own); !column.empty())
    return "column " + in_quotes(column) + " has other values than that of";
  // One of both by bytes is known by the model's shape.
  if (!theirs->characters.empty() && !own.characters.empty()
      && theirs->characters != own.characters)
    return "text has other characters than that of";
  if (theirs->of_text() && own.of_text() && theirs->tokenizer != own.tokenizer)
    return "text has another tokenizer than that of";
  return {};
}

void take_label_kind(Dataset& data, const std::string& path) {
  if (data.labelled || (data.fitted && data.fitted->of_table()))
    return;
  const auto metadata = read_safetensors_metadata(weights_file(path));
  const auto found = metadata.find("label");
  if (found == metadata.end())
    return; // of another program, or of before
  const auto kind = label_kind(found->second);
  uint32_t classes = 0;
  if (const auto count = metadata.find("classes"); count != metadata.end())
    std::from_chars(count->second.data(),
                    count->second.data() + count->second.size(), classes);
  if (!kind || *kind == LabelKind::tokens)
    throw InputError(path
                     + ": was trained on labels that these samples cannot "
                       "have; give the weights of a model for them");
  take_no_labels(data, data.samples(), *kind, classes);
}

namespace {

/// Whether both name the same path of this machine, however it is spelled.
bool is_one_path(const std::string& a, const std::string& b) {
  if (a == b || a.find("://") != std::string::npos
      || b.find("://") != std::string::npos)
    return a == b;
  std::error_code unknown;
  const auto one = std::filesystem::weakly_canonical(a, unknown);
  return !unknown && one == std::filesystem::weakly_canonical(b, unknown)
         && !unknown;
}

/// What of `asked` the weights know is taken from there; in the order of keys.
DataSpec as_trained(DataSpec asked, const DataSpec& trained,
                    bool knows_columns) {
  const auto split_only = without_split(trained);
  if (is_one_path(asked.where, trained.where))
    asked.where = trained.where;
  if (knows_columns && asked.kind == trained.kind
      && asked.where == trained.where)
    for (const auto& given : split_only.options)
      if (std::none_of(asked.options.begin(), asked.options.end(),
                       [&](auto& own) { return own.first == given.first; }))
        asked.options.push_back(given);
  std::sort(asked.options.begin(), asked.options.end());
  return asked;
}

} // namespace

bool keep_split(JobOptions& options, const std::string& path) {
  if (!options.eval_data.empty())
    return false; // they are named
  const auto metadata = read_safetensors_metadata(weights_file(path));
  const auto data = metadata.find("data");
  const auto fraction = metadata.find("eval_fraction");
  if (data == metadata.end() || fraction == metadata.end())
    return false;
  auto trained = without_mix(parse_data_spec(data->second));
  const auto asked = as_trained(without_mix(parse_data_spec(options.data)),
                                trained, metadata.contains("columns"));
  std::sort(trained.options.begin(), trained.options.end());
  const auto kept = kept_columns(path);
  const bool tokens = kept && !kept->tokenizer.empty();
  if (tokens ? trained.kind != asked.kind || trained.where != asked.where
             : without_split(trained) != without_split(asked))
    return false;
  double held_out = 0;
  const auto& text = fraction->second;
  const auto read = std::from_chars(text.data(), text.data() + text.size(),
                                    held_out);
  if (read.ec != std::errc{} || !(held_out > 0 && held_out < 1))
    throw InputError(path + ": its eval_fraction is " + text
                     + ", no number between 0 and 1");
  const bool other_rule = !tokens && asked != without_split(asked)
                          && asked != trained;
  if (other_rule
      || (options.eval_fraction != 0 && options.eval_fraction != held_out))
    throw InputError("--data " + options.data + " with --eval-fraction "
                     + std::to_string(options.eval_fraction)
                     + " holds out others than its training did (" + path + ": "
                     + data->second + ", " + text
                     + "), which saw some of them; give those, or leave them "
                       "out");
  if (!tokens) // who loads them takes the tokenizer that is kept
    options.data = data->second;
  options.eval_fraction = held_out;
  return true;
}

TrainedModel load_trained_model(const std::string& model,
                                const SampleShape& shape,
                                const std::string& path, uint32_t slices) {
  auto uncut = make_graph(model, shape);
  auto file = read_safetensors(weights_file(path), is_learned_tensor);
  file.tensors = from_hugging_face(uncut, std::move(file.tensors), path);
  TrainedModel out{in_virtual_slices(uncut, model, slices), {}, {}};
  const auto& graph = out.graph;
  const auto& wholes = whole_parameters(graph);
  Layout layout{graph};
  out.parameters = Buffer{layout.total};
  out.parameters.fill(0);
  for (uint32_t whole = 0; whole < wholes.size(); ++whole) {
    const auto& tensor = tensor_of(file, wholes[whole], path);
    for (const auto piece : pieces_of(graph, whole))
      take_piece(graph, piece, 0, tensor.values.data(),
                 {out.parameters.data() + layout.offsets[piece],
                  graph.parameters[piece].size()});
  }
  if (file.tensors.size() > wholes.size())
    throw InputError(path + ": holds " + std::to_string(file.tensors.size())
                     + " tensors but the model has "
                     + std::to_string(wholes.size()) + ", without "
                     + stranger_in(file, wholes)
                     + "; give the --model it was trained with");
  out.weights_sha256 = tensors_sha256(std::move(file.tensors));
  return out;
}

Scores score_on(Executor& executor, const Graph& graph, const float* parameters,
                const Dataset& data, DeviceId device, const Renumber& renumber,
                bool logits) {
  const auto batch_rows = rows_of(graph);
  const auto batches =
    static_cast<size_t>((data.samples() + batch_rows - 1) / batch_rows);
  Scores out;
  out.samples = data.samples();
  const auto labels = data.samples() * graph.labels();
  const bool several = graph.loss().kind == OpKind::softmax_cross_entropy;
  const auto width = !several || logits ? graph.outputs() : 0;
  if (several)
    need_memory(data.samples() * width * sizeof(float),
                "what the model gives of " + std::to_string(data.samples())
                  + " samples",
                "take fewer of them at once");
  out.predictions.resize(graph.classes() > 0 ? labels : 0);
  out.outputs.resize(data.samples() * width);
  std::vector<LeafStats> stats(batches);
  std::vector<Lane> lanes;
  for (uint32_t i = 0; i < executor.threads(); ++i)
    lanes.emplace_back(graph, device);
  executor.parallel_for(batches, [&](size_t batch, uint32_t thread) {
    const auto first = batch * batch_rows;
    Predictions predictions;
    if (graph.classes() > 0)
      predictions.classes = out.predictions.data() + first * graph.labels();
    if (width > 0)
      predictions.outputs = out.outputs.data() + first * width;
    stats[batch] = compute(lanes[thread], parameters, data, batch, renumber,
                           predictions);
  });
  uint64_t correct = 0;
  for (const auto& batch : stats) {
    out.loss += batch.loss_sum;
    correct += batch.correct;
  }
  out.loss /= static_cast<double>(out.samples);
  out.accuracy = static_cast<double>(correct) / static_cast<double>(labels);
  out.measures = measures_of(graph, out, data);
  return out;
}

Scores score(const TrainedModel& model, const Dataset& data, DeviceId device,
             uint32_t threads, bool logits) {
  // Fewer classes than the model knows are fine; another shape is not.
  make_graph(model.graph.text, data.shape);
  // A GPU has one stream here; more threads would only take turns.
  Executor executor{to_string(device),
                    device.kind == DeviceId::Kind::cpu ? threads : 1};
  std::promise<Scores> done;
  executor.submit([&] {
    try {
      done.set_value(score_on(executor, model.graph, model.parameters.data(),
                              data, device, {}, logits));
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  return done.get_future().get();
}

} // namespace troupe
