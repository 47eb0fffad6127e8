#include "actors/trainer.hpp"

#include "actors/job/job.hpp"
#include "actors/job/trained_model.hpp"
#include "actors/journal/run_counts.hpp"
#include "actors/launch/job_runner.hpp"
#include "kernels/base/crc32c.hpp"
#include "kernels/files/file_error.hpp"
#include "strategies/consistency.hpp"
#include "strategies/reshape.hpp"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace troupe {
namespace {

std::vector<std::string> devices_of(const std::string& text) {
  constexpr std::string_view kind = "cpu:";
  constexpr uint32_t max_devices = 1024;
  uint32_t count = 0;
  if (text.starts_with(kind)) {
    const auto* end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + kind.size(), end, count);
    if (read.ec != std::errc{} || read.ptr != end || count > max_devices)
      count = 0;
  }
  if (count == 0)
    throw UsageError("devices " + text + ": expected cpu:N with N from 1 to "
                     + std::to_string(max_devices));
  std::vector<std::string> devices;
  for (uint32_t i = 0; i < count; ++i)
    devices.push_back("cpu:" + std::to_string(i));
  return devices;
}

Consistency mode_of(const std::string& text) {
  Consistency mode;
  if (!parse(text, mode))
    throw UsageError("consistency " + text
                     + ": expected sync, async or staleness:N");
  return mode;
}

JobOptions job_of(const TrainerOptions& options) {
  JobOptions job;
  job.model = options.model;
  job.data = "memory:";
  if (!parse(options.strategy, job.strategy))
    throw UsageError("strategy " + options.strategy + " is unknown");
  if (!parse(options.shard, job.cut.sharding))
    throw UsageError("shard " + options.shard
                     + ": expected optimizer, gradients or parameters");
  job.devices = devices_of(options.devices);
  job.workers = options.workers;
  job.shards = options.ps;
  job.virtual_ranks = options.virtual_ranks;
  job.cut.virtual_slices = options.virtual_slices;
  job.global_batch = options.global_batch;
  job.epochs = options.epochs;
  job.optimizer = options.optimizer;
  job.rule.kind = parse_optimizer(options.optimizer);
  job.learning_rate = options.learning_rate;
  job.seed = options.seed;
  job.clip_norm = options.clip_norm;
  const auto mode = mode_of(options.consistency);
  job.synchronisation = mode.async ? Synchronisation::async
                                   : Synchronisation::sync;
  job.staleness = mode.staleness;
  job.sample = options.sample;
  job.samples = options.global_batch; // until fit() knows better
  return job;
}

void require_length(const char* call, const char* what, size_t found,
                    uint64_t rows, uint64_t each) {
  if (found != rows * each)
    throw InputError(std::string{call} + ": " + what + " must hold "
                     + std::to_string(each) + " values for each of "
                     + std::to_string(rows) + " samples, not "
                     + std::to_string(found) + " in all");
}

void require_range(const char* call, const char* what,
                   const std::vector<int32_t>& values, int32_t lowest,
                   uint64_t end) {
  for (auto value : values)
    if (value < lowest || value >= static_cast<int64_t>(end))
      throw InputError(std::string{call} + ": " + what + " "
                       + std::to_string(value) + " is not in ["
                       + std::to_string(lowest) + ", " + std::to_string(end)
                       + ")");
}

uint32_t digest_of(const Dataset& data) {
  uint32_t sum = 0;
  const auto add = [&sum](const auto& values) {
    sum = crc32c(sum, std::data(values), values.size() * sizeof(values[0]));
  };
  add(std::as_const(data.values));
  add(data.ids);
  add(data.labels);
  add(data.targets);
  return sum;
}

} // namespace

struct Trainer::State {
  /// To switch, and to change; for another thread than that of fit().
  struct Wish {
    std::mutex lock;
    std::string mode;
    std::deque<std::pair<std::string, std::promise<std::string>>> changes;
    std::optional<std::promise<std::string>> under_way;
  };

  /// What fit() leaves for the next one: a folder with its last checkpoint.
  struct Fitted {
    Fitted() {
      auto name =
        (std::filesystem::temp_directory_path() / "troupe-fit-XXXXXX").string();
      if (::mkdtemp(name.data()) == nullptr)
        fail_to_write(name, errno);
      folder = name;
    }
    ~Fitted() {
      std::error_code failure;
      std::filesystem::remove_all(folder, failure);
    }
    Fitted(const Fitted&) = delete;
    Fitted& operator=(const Fitted&) = delete;

    std::filesystem::path folder;
    uint32_t samples = 0; ///< digest of them
    uint64_t epochs = 0;
  };

  explicit State(const TrainerOptions& options)
    : job(job_of(options)), graph(make_graph(job.model, job.sample)) {}

  std::shared_ptr<Dataset> dataset_of(TrainerSamples samples,
                                      const char* call) const;

  JobOptions job;
  Graph graph;
  std::shared_ptr<Wish> wish = std::make_shared<Wish>();
  std::shared_ptr<const TrainedModel> model; ///< null before fit()
  std::shared_ptr<const Fitted> fitted; ///< what the next fit() goes on from
};

Trainer::Trainer(TrainerOptions options)
  : state_(std::make_unique<State>(options)) {
  if (state_->graph.sample.label == LabelKind::tokens)
    throw UsageError("model " + state_->job.model
                     + " learns text, which has no rows of arrays: use troupe "
                       "train --data text:FILE");
  Job check{state_->job};
}

Trainer::~Trainer() = default;
Trainer::Trainer(const Trainer& other)
  : state_(std::make_unique<State>(*other.state_)) {
  state_->wish = std::make_shared<State::Wish>(); // those were for the other
}
Trainer& Trainer::operator=(const Trainer& other) {
  return *this = Trainer{other};
}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

void Trainer::switch_consistency(const std::string& mode) {
  mode_of(mode);
  if (state_->job.strategy != Strategy::parameter_server)
    throw UsageError("strategy " + to_string(state_->job.strategy)
                     + " is always synchronous");
  std::lock_guard guard{state_->wish->lock};
  state_->wish->mode = mode;
}

std::future<std::string> Trainer::reshape(const std::string& change) {
  Reshape wish;
  std::string mistake;
  if (!parse(change, wish, mistake))
    throw UsageError(mistake);
  std::lock_guard guard{state_->wish->lock};
  auto& [words, promise] = state_->wish->changes.emplace_back();
  words = to_string(wish);
  return promise.get_future();
}

std::shared_ptr<Dataset> Trainer::State::dataset_of(TrainerSamples samples,
                                                    const char* call) const {
  const auto features = graph.features();
  const auto ids = graph.ids();
  const auto rows = features > 0
                      ? samples.features.size() / features
                      : samples.ids.size() / std::max<uint64_t>(ids, 1);
  if (rows == 0)
    throw InputError(std::string{call} + ": there are no samples");
  require_length(call, "features", samples.features.size(), rows, features);
  require_length(call, "ids", samples.ids.size(), rows, ids);
  require_range(call, "id", samples.ids, -1, graph.sample.vocabulary);
  auto data = std::make_shared<Dataset>();
  data->name = "the caller's arrays";
  data->shape = graph.sample;
  data->values = std::move(samples.features);
  data->ids = std::move(samples.ids);
  if (graph.sample.label == LabelKind::number)
    data->targets = std::move(samples.targets);
  else
    data->labels = std::move(samples.labels);
  return data;
}

Trainer::Result Trainer::fit(std::vector<float> features,
                             std::vector<int32_t> labels) {
  return fit({std::move(features), {}, std::move(labels), {}});
}

Trainer::Result Trainer::fit(TrainerSamples samples) {
  auto data = state_->dataset_of(std::move(samples), "fit");
  const bool numbers = state_->graph.sample.label == LabelKind::number;
  const auto rows = state_->graph.features() > 0
                      ? data->values.size() / state_->graph.features()
                      : data->ids.size() / state_->graph.ids();
  require_length("fit", numbers ? "targets" : "labels",
                 numbers ? data->targets.size() : data->labels.size(), rows, 1);
  require_range("fit", "label", data->labels, 0, state_->graph.classes());
  auto fitted = std::make_shared<State::Fitted>();
  fitted->samples = digest_of(*data);
  fitted->epochs = state_->job.epochs;
  RunOptions run;
  run.job = state_->job;
  run.checkpoints.dir = (fitted->folder / "checkpoints").string();
  run.checkpoints.keep = 1;
  if (state_->fitted) {
    if (state_->fitted->samples != fitted->samples)
      throw InputError(
        "fit: goes on with the samples that it was given before, "
        "and these are others; make another Trainer for them");
    std::filesystem::copy(state_->fitted->folder / "checkpoints",
                          run.checkpoints.dir,
                          std::filesystem::copy_options::recursive);
    run.checkpoints.resume = true;
    fitted->epochs += state_->fitted->epochs;
    run.job.epochs = fitted->epochs;
  }
  run.save = (fitted->folder / "weights.safetensors").string();
  run.events.consistency = [wish = state_->wish] {
    std::lock_guard guard{wish->lock};
    return std::exchange(wish->mode, {});
  };
  run.events.reshape = [wish = state_->wish] {
    std::lock_guard guard{wish->lock};
    if (wish->changes.empty() || wish->under_way)
      return std::string{};
    auto next = std::move(wish->changes.front());
    wish->changes.pop_front();
    wish->under_way = std::move(next.second);
    return next.first;
  };
  run.events.reshaped = [wish = state_->wish](bool done,
                                              const std::string& line) {
    std::lock_guard guard{wish->lock};
    auto promise = std::move(*wish->under_way);
    wish->under_way.reset();
    if (done)
      promise.set_value(line);
    else
      promise.set_exception(std::make_exception_ptr(InputError(line)));
  };
  auto outcome = run_in_process(run, JobData{data, nullptr});
  if (outcome.status != 0)
    throw InputError(outcome.line);
  auto model = load_trained_model(state_->job.model, data->shape, run.save);
  std::filesystem::remove(run.save);
  state_->model = std::make_shared<const TrainedModel>(std::move(model));
  state_->fitted = std::move(fitted);
  auto summary = nlohmann::json::parse(outcome.summary);
  const auto& loss = summary["final_loss"];
  return {summary["steps"], loss.is_null() ? unknown_loss : loss.get<double>(),
          summary["samples_per_second"], summary["weights_sha256"]};
}

std::vector<int32_t>
Trainer::predict(const std::vector<float>& features) const {
  return predict(TrainerSamples{features, {}, {}, {}}).classes;
}

Trainer::Prediction Trainer::predict(TrainerSamples samples) const {
  if (!state_->model)
    throw InputError("predict: call fit() first");
  auto data = state_->dataset_of(std::move(samples), "predict");
  // Scoring counts samples by their labels.
  const auto rows = state_->graph.features() > 0
                      ? data->values.size() / state_->graph.features()
                      : data->ids.size() / state_->graph.ids();
  data->labels.assign(state_->graph.classes() > 0 ? rows : 0, 0);
  data->targets.assign(state_->graph.classes() > 0 ? 0 : rows, 0);
  auto scores = score(*state_->model, *data, {}, 1);
  if (state_->graph.loss().kind == OpKind::sigmoid_cross_entropy)
    for (auto& value : scores.outputs)
      value = static_cast<float>(1 / (1 + std::exp(-double{value})));
  return {std::move(scores.predictions), std::move(scores.outputs)};
}

} // namespace troupe
