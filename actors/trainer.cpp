#include "actors/trainer.hpp"

#include "actors/job.hpp"
#include "kernels/buffer.hpp"
#include "kernels/error.hpp"
#include "kernels/files/safetensors.hpp"
#include "kernels/replica.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

#include <unistd.h>

namespace troupe {
namespace {

constexpr uint32_t predict_rows = 256;

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
  if (labels.empty() || features.size() != labels.size() * graph.features)
    throw InputError("fit: features must hold labels * "
                     + std::to_string(graph.features) + " values");
  for (auto label : labels)
    if (label < 0 || static_cast<uint32_t>(label) >= graph.classes)
      throw InputError("fit: label " + std::to_string(label)
                       + " is not in [0, " + std::to_string(graph.classes)
                       + ")");
  auto data = std::make_shared<Dataset>();
  data->name = "the caller's arrays";
  data->features = graph.features;
  data->classes = graph.classes;
  data->values = std::move(features);
  data->labels = std::move(labels);
  RunOptions run;
  run.job = job_;
  run.save = (std::filesystem::temp_directory_path()
              / ("troupe-" + std::to_string(getpid()) + "-"
                 + std::to_string(reinterpret_cast<uintptr_t>(this))
                 + ".safetensors"))
               .string();
  auto outcome = run_in_process(run, JobData{data, nullptr});
  if (outcome.status != 0)
    throw InputError(outcome.line);
  auto file = read_safetensors(run.save);
  std::filesystem::remove(run.save);
  const Layout layout{graph};
  parameters_.assign(layout.total, 0);
  for (const auto& tensor : file.tensors)
    for (size_t i = 0; i < graph.parameters.size(); ++i)
      if (graph.parameters[i].name == tensor.name)
        std::copy(tensor.values.begin(), tensor.values.end(),
                  parameters_.begin()
                    + static_cast<ptrdiff_t>(layout.offsets[i]));
  auto summary = nlohmann::json::parse(outcome.summary);
  return {summary["steps"], summary["final_loss"],
          summary["samples_per_second"], summary["weights_sha256"]};
}

std::vector<int32_t>
Trainer::predict(const std::vector<float>& features) const {
  const auto graph = make_graph(job_.model);
  if (parameters_.empty())
    throw InputError("predict: call fit() first");
  if (features.size() % graph.features != 0)
    throw InputError("predict: features must hold rows of "
                     + std::to_string(graph.features) + " values");
  Buffer parameters{parameters_.size()};
  std::copy(parameters_.begin(), parameters_.end(), parameters.data());
  auto replica = make_replica(graph, DeviceId{}, predict_rows);
  const auto rows = features.size() / graph.features;
  std::vector<int32_t> classes(rows);
  for (size_t at = 0; at < rows; at += predict_rows) {
    const auto count
      = static_cast<uint32_t>(std::min<size_t>(predict_rows, rows - at));
    replica->evaluate(parameters.data(),
                      {features.data() + at * graph.features, nullptr, count},
                      classes.data() + at);
  }
  return classes;
}

} // namespace troupe
