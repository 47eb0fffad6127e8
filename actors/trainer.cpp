#include "actors/trainer.hpp"

#include "actors/job.hpp"
#include "actors/trained_model.hpp"
#include "kernels/error.hpp"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace troupe {
namespace {

std::vector<std::string> devices_of(const std::string& text) {
  uint32_t count = 0;
  if (!text.starts_with("cpu:") || text.size() == 4
      || !std::all_of(text.begin() + 4, text.end(), ::isdigit)
      || (count = static_cast<uint32_t>(std::stoul(text.substr(4)))) == 0)
    throw UsageError("devices " + text + ": expected cpu:N");
  std::vector<std::string> devices;
  for (uint32_t i = 0; i < count; ++i)
    devices.push_back("cpu:" + std::to_string(i));
  return devices;
}

} // namespace

Trainer::Trainer(TrainerOptions options) {
  job_.model = options.model;
  job_.data = "memory:";
  if (!parse(options.strategy, job_.strategy))
    throw UsageError("strategy " + options.strategy + " is unknown");
  job_.devices = devices_of(options.devices);
  job_.workers = options.workers;
  job_.shards = options.ps;
  job_.virtual_ranks = options.virtual_ranks;
  job_.global_batch = options.global_batch;
  job_.epochs = options.epochs;
  job_.optimizer = options.optimizer;
  job_.rule.kind = parse_optimizer(options.optimizer);
  job_.learning_rate = options.learning_rate;
  job_.seed = options.seed;
  Job check{job_, job_.global_batch};
}

Trainer::Result Trainer::fit(std::vector<float> features,
                             std::vector<int32_t> labels) {
  const auto graph = make_graph(job_.model);
  if (labels.empty() || features.size() != labels.size() * graph.features())
    throw InputError("fit: features must hold labels * "
                     + std::to_string(graph.features()) + " values");
  for (auto label : labels)
    if (label < 0 || static_cast<uint32_t>(label) >= graph.classes())
      throw InputError("fit: label " + std::to_string(label) + " is not in [0, "
                       + std::to_string(graph.classes()) + ")");
  auto data = std::make_shared<Dataset>();
  data->name = "the caller's arrays";
  data->shape.features = {graph.features()};
  data->shape.classes = static_cast<uint32_t>(graph.classes());
  data->values = std::move(features);
  data->labels = std::move(labels);
  RunOptions run;
  run.job = job_;
  run.save =
    (std::filesystem::temp_directory_path()
     / ("troupe-" + std::to_string(getpid()) + "-"
        + std::to_string(reinterpret_cast<uintptr_t>(this)) + ".safetensors"))
      .string();
  auto outcome = run_in_process(run, JobData{data, nullptr});
  if (outcome.status != 0)
    throw InputError(outcome.line);
  auto model = load_trained_model(job_.model, data->shape, run.save);
  std::filesystem::remove(run.save);
  model_ = std::make_shared<const TrainedModel>(std::move(model));
  auto summary = nlohmann::json::parse(outcome.summary);
  return {summary["steps"], summary["final_loss"],
          summary["samples_per_second"], summary["weights_sha256"]};
}

std::vector<int32_t>
Trainer::predict(const std::vector<float>& features) const {
  const auto graph = make_graph(job_.model);
  if (!model_)
    throw InputError("predict: call fit() first");
  if (features.empty() || features.size() % graph.features() != 0)
    throw InputError("predict: features must hold rows of "
                     + std::to_string(graph.features()) + " values");
  Dataset data;
  data.name = "the caller's arrays";
  data.shape.features = {graph.features()};
  data.shape.classes = static_cast<uint32_t>(graph.classes());
  data.labels.resize(features.size() / graph.features());
  data.values = features;
  return score(*model_, data, {}, 1).predictions;
}

} // namespace troupe
