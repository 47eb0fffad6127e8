#include "actors/compute/leaf_computer.hpp"
#include "actors/job/trained_model.hpp"
#include "actors/wire/version.hpp"
#include "apps/commands/prediction_file.hpp"
#include "apps/commands/weights_model.hpp"
#include "apps/settings/commands.hpp"
#include "apps/terminal/console.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/columns/fitted_columns.hpp"
#include "kernels/files/atomic_file.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>

// `troupe evaluate` and `troupe predict`: saved weights, samples, a verdict.

namespace troupe {

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span{text});
}

/// The whole data set, or the part that training held out.
std::shared_ptr<Dataset> samples_of(const Settings& settings,
                                    const JobOptions& job) {
  const bool unlabelled = settings.command == "predict";
  auto parts = load_samples(job, kept_columns(settings.checkpoint), unlabelled);
  return parts.eval ? parts.eval : parts.train;
}

struct Verdict {
  Scores scores;
  std::string model;
  bool held_out = false;            ///< by the training of these weights
  std::vector<std::string> classes; ///< of a table: their texts
  Graph graph;
  std::string weights_sha256;
  std::string isa;
  double wall_seconds = 0;
};

PredictionFile prediction_file(const Settings& settings,
                               const Verdict& verdict) {
  return {settings.out, settings.output, verdict.classes};
}

Verdict judge(const Settings& settings) {
  auto job = settings.job;
  const auto start = SteadyClock::now();
  Verdict out;
  out.isa = select_isa(job.isa);
  const auto kept = kept_model(settings.checkpoint);
  job.model = model_of(settings, kept);
  out.model = settings.given.count("model") > 0 ? job.model : kept.model;
  out.held_out = keep_split(job, settings.checkpoint);
  auto data = samples_of(settings, job);
  if (data->fitted)
    out.classes = data->fitted->classes();
  take_label_kind(*data, settings.checkpoint);
  auto model = load_trained_model(job.model, data->shape, settings.checkpoint,
                                  job.cut.virtual_slices);
  cut_windows(*data, model.graph, true);
  const bool predicts = settings.command == "predict";
  if (predicts)
    check_prediction_file(prediction_file(settings, out), model.graph);
  out.scores = score(model, *data, parse_device(job.devices.front()),
                     job.threads_per_device,
                     predicts && settings.output != "class");
  if (data->fitted)
    data->fitted->unscale(out.scores.outputs);
  out.graph = std::move(model.graph);
  out.weights_sha256 = model.weights_sha256;
  out.wall_seconds = seconds_since(start);
  if (!std::isfinite(out.scores.loss))
    throw InputError(settings.checkpoint
                     + ": the loss is not a finite number; the weights were "
                       "saved by a run that had failed");
  return out;
}

std::string summary_of(const Settings& settings, const Verdict& verdict) {
  const auto& scores = verdict.scores;
  nlohmann::ordered_json json;
  json["version"] = version;
  json["model"] = verdict.model;
  json["checkpoint"] = settings.checkpoint;
  json["data"] = settings.job.data;
  json["samples"] = scores.samples;
  json["wall_seconds"] = verdict.wall_seconds;
  for (const auto& measure : scores.measures)
    json["eval"][measure.name] = measure.value;
  json["weights_sha256"] = verdict.weights_sha256;
  json["isa"] = verdict.isa;
  json["device"] = settings.job.devices.front();
  json["libraries"] = library_versions();
  using Json = nlohmann::ordered_json;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

void print(const Settings& settings, const Verdict& verdict) {
  const auto& scores = verdict.scores;
  const auto measures = in_words(scores.measures);
  if (!settings.quiet)
    std::printf("%s%ssamples %llu%s\n", measures.c_str(),
                measures.empty() ? "" : "  ",
                static_cast<unsigned long long>(scores.samples),
                verdict.held_out ? ", which training did not see" : "");
}

} // namespace

int run_evaluate(const Settings& settings) {
  auto verdict = judge(settings);
  if (!settings.summary.empty())
    write_atomically(settings.summary,
                     {bytes_of(summary_of(settings, verdict))});
  print(settings, verdict);
  return 0;
}

int run_predict(const Settings& settings) {
  const auto verdict = judge(settings);
  const auto contents = contents_of(prediction_file(settings, verdict),
                                    verdict.graph, verdict.scores);
  write_atomically(settings.out, {bytes_of(contents)});
  print(settings, verdict);
  return 0;
}

} // namespace troupe
