#include "tests/sim/real/scenario.hpp"

#include "tests/sim/runtime_parts.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace troupe::real {
namespace {

using Kind = Scenario::Kind;

constexpr uint32_t virtual_ranks = 4;
constexpr uint64_t steps = 50;
constexpr uint32_t vocabulary = 300;

/// Odd sizes, so that the last step of an epoch has ranks without samples.
std::shared_ptr<const Dataset> samples_of(Kind kind) {
  const bool tables = kind == Kind::tables || kind == Kind::async_tables;
  auto data = std::make_shared<Dataset>();
  data->name = "simulated";
  sim::Random draw{static_cast<uint64_t>(kind) + 1};
  const uint64_t samples = 50;
  if (tables) {
    data->shape.ids = 4;
    data->shape.vocabulary = vocabulary;
  }
  if (kind != Kind::async_tables)
    data->shape.features = {4};
  data->shape.classes = 2;
  if (tables)
    data->shape.label = LabelKind::binary;
  if (kind == Kind::tables)
    data->shape.features = {3};
  for (uint64_t sample = 0; sample < samples; ++sample) {
    for (uint64_t i = 0; i < data->features(); ++i)
      data->values.push_back(static_cast<float>(draw.below(1000)) / 1000);
    for (uint32_t i = 0; i < data->shape.ids; ++i)
      data->ids.push_back(
        draw.chance(10) ? -1 : static_cast<int32_t>(draw.below(vocabulary)));
    data->labels.push_back(static_cast<int32_t>(draw.below(2)));
  }
  return data;
}

/// Batch norms of which three stages or four each have one, or none.
constexpr const char* model_with_norms =
  R"({"sample": {"features": [4], "classes": 2}, "operators": [
      {"kind": "batch_norm", "cross_replica": true},
      {"kind": "dense", "units": 5},
      {"kind": "batch_norm", "cross_replica": true},
      {"kind": "dense", "units": 3, "activation": "relu"},
      {"kind": "batch_norm", "cross_replica": true},
      {"kind": "dense", "units": "classes"},
      {"kind": "softmax_cross_entropy"}]})";

/// Small enough for four stages and fifty steps to take milliseconds.
JobOptions staged(JobOptions options, const Scenario& scenario) {
  const auto& stages = scenario.stages;
  const bool tensor = scenario.kind == Kind::tensor;
  if (stages.beside_shards)
    options.cut.sync_data = "parameter_server";
  else
    options.workers = options.shards = options.chain = 1;
  if (stages.clips)
    options.clip_norm = 0.1;
  if (stages.tied)
    options.data = "synthetic:text?samples=250";
  if (scenario.kind == Kind::grouped) { // the last stage may have no slices
    options.strategy = Strategy::hybrid;
    options.cut.mesh = {stages.pipelines, stages.count, stages.members};
    options.model = stages.tied ? "transformer:L1-H4-D8-T4-P0.2"
                                : "mlp:4-5-4-4-4-2";
    options.cut.virtual_slices = 4;
    options.schedule.order = stages.schedule;
    options.schedule.recompute = stages.recompute ? "full" : "none";
    return options;
  }
  if (tensor) {
    options.strategy = stages.pipelines > 1 || stages.beside_shards
                         ? Strategy::hybrid
                         : Strategy::tensor;
    options.cut.mesh = {stages.pipelines, 1, stages.count};
    options.model = stages.tied ? "transformer:L1-H4-D8-T4-P0.2"
                                : "mlp:4-5-4-4-2";
    options.cut.tensor = stages.count;
    options.cut.virtual_slices = 4;
    return options;
  }
  options.strategy = stages.pipelines > 1 || stages.beside_shards
                       ? Strategy::hybrid
                       : Strategy::pipeline;
  options.cut.mesh = {stages.pipelines, stages.count, 1};
  options.model = stages.tied    ? "transformer:L1-H1-D4-T4-P0.2"
                  : stages.norms ? model_with_norms
                                 : "mlp:4-5-4-3-2";
  options.stages = stages.count;
  options.schedule.order = stages.schedule;
  options.schedule.recompute = stages.recompute ? "full" : "none";
  return options;
}

JobOptions options_of(const Scenario& scenario) {
  JobOptions options;
  options.data = "memory:";
  options.devices = {"cpu:0"};
  options.strategy = Strategy::parameter_server;
  options.workers = scenario.workers;
  options.shards = scenario.shards;
  options.chain = scenario.chain;
  options.virtual_ranks = virtual_ranks;
  options.epochs = 0;
  options.steps = steps;
  options.eval_every = 0;
  options.seed = 7;
  options.global_batch = 2 * virtual_ranks + 1;
  options.optimizer = "adam";
  options.rule.kind = OptimizerKind::adam;
  options.learning_rate = 0.01;
  options.model = "mlp:4-3-2";
  options.bucket_mb = 1e-6; // each variable leaves when its gradient is final
  options.prefetch = scenario.workers % 2 == 0 ? "on" : "off";
  options.priority = scenario.workers % 3 == 0 ? "off" : "on";
  switch (scenario.kind) {
    case Kind::pipeline:
    case Kind::tensor:
    case Kind::grouped:
      return staged(options, scenario);
    case Kind::sync:
      break;
    case Kind::scalars:
      options.clip_norm = 2;
      break;
    case Kind::tables:
      options.model = "logreg";
      options.tables = "sparse";
      if (scenario.exact) {
        options.sparse_updates = "exact";
        options.rule.weight_decay = 0.1f;
        break;
      }
      options.optimizer = "adagrad";
      options.rule.kind = OptimizerKind::adagrad;
      break;
    case Kind::bounded:
      options.staleness = scenario.workers - 1;
      [[fallthrough]];
    case Kind::async:
    case Kind::async_tables: // integers: the same bits in any order
      options.model = scenario.kind == Kind::async_tables ? "count:0ms-4"
                                                          : "count:0ms-40";
      options.synchronisation = Synchronisation::async;
      options.partitioner = "fixed:3";
      options.optimizer = "sgd";
      options.rule.kind = OptimizerKind::sgd;
      options.learning_rate = 1;
      options.global_batch = 2 * virtual_ranks;
  }
  return options;
}

void fill_in(Scenario& scenario) {
  static std::map<std::pair<Kind, bool>, JobData> data;
  const bool tied = scenario.stages.tied;
  auto& samples = data[{scenario.kind, tied}].train;
  if (!samples)
    samples = tied ? load_job_data(options_of(scenario)).train
                   : samples_of(scenario.kind);
  scenario.data = data[{scenario.kind, tied}];
  static std::map<std::string, std::shared_ptr<const Job>> jobs;
  auto& job = jobs[scenario.layout()];
  if (!job)
    job = std::make_shared<const Job>(options_of(scenario), *samples);
  scenario.job = job;
}

} // namespace

std::string to_string(Fault fault) {
  constexpr const char* names[] = {"kill worker", "kill shard", "kill host",
                                   "pause",       "stop",       "cut link",
                                   "cut control", "corrupt",    "one way",
                                   "delay",       "clock jump"};
  return names[static_cast<int>(fault)];
}

namespace {

Scenario pipeline_of(sim::Random& draw) {
  Scenario out;
  out.kind = Kind::pipeline;
  auto& stages = out.stages;
  stages.tied = draw.chance(50);
  stages.clips = draw.chance(50);
  stages.recompute = draw.chance(30);
  constexpr const char* schedules[] = {"gpipe", "1f1b", "interleaved",
                                       "zero_bubble"};
  stages.schedule = schedules[draw.below(std::size(schedules))];
  // Micro-batches go round interleaved stages in groups, and each chunk of
  // theirs has an operator.
  stages.count = static_cast<uint32_t>(
    stages.schedule == "interleaved" ? 2 : draw.between(2, 4));
  if (draw.chance(40))
    stages.pipelines = static_cast<uint32_t>(draw.between(2, 3));
  stages.norms = stages.schedule == "gpipe" && !stages.tied && draw.chance(60);
  fill_in(out);
  return out;
}

Scenario beside_shards(Scenario scenario, sim::Random& draw) {
  scenario.stages.beside_shards = true;
  scenario.shards = static_cast<uint32_t>(draw.between(1, 2));
  scenario.chain = static_cast<uint32_t>(draw.between(1, 2));
  if (draw.below(3) == 0)
    scenario.changes = static_cast<uint32_t>(draw.between(1, 3));
  fill_in(scenario);
  return scenario;
}

/// Small enough for worlds to be fast.
Scenario pipeline_beside_shards_of(sim::Random& draw) {
  auto out = pipeline_of(draw);
  out.stages.count = std::min(out.stages.count, 3u);
  return beside_shards(std::move(out), draw);
}

Scenario tensor_of(sim::Random& draw) {
  Scenario out;
  out.kind = Kind::tensor;
  out.stages.tied = draw.chance(50);
  out.stages.clips = draw.chance(50);
  out.stages.count = draw.chance(50) ? 2 : 4;
  if (draw.chance(40)) // small enough for worlds to be fast
    out.stages.pipelines =
      out.stages.count == 2 ? static_cast<uint32_t>(draw.between(2, 3)) : 2;
  fill_in(out);
  return out;
}

/// Small enough for worlds to be fast: one pipeline of two or three stages, or
/// two of two.
Scenario grouped_of(sim::Random& draw) {
  Scenario out;
  out.kind = Kind::grouped;
  auto& stages = out.stages;
  stages.tied = draw.chance(50);
  stages.clips = draw.chance(50);
  stages.recompute = draw.chance(30);
  constexpr const char* schedules[] = {"gpipe", "1f1b", "zero_bubble"};
  stages.schedule = schedules[draw.below(std::size(schedules))];
  stages.members = 2;
  stages.pipelines = draw.chance(40) ? 2 : 1;
  stages.count = stages.pipelines == 1 && draw.chance(40) ? 3 : 2;
  fill_in(out);
  return out;
}

Scenario members_beside_shards_of(sim::Random& draw) {
  auto out = draw.chance(50) ? tensor_of(draw) : grouped_of(draw);
  return beside_shards(std::move(out), draw);
}

} // namespace

Scenario scenario_of(uint64_t seed) {
  sim::Random draw{seed * 2 + 1};
  if (seed >= first_members_beside_shards_seed)
    return members_beside_shards_of(draw);
  if (seed >= first_beside_shards_seed)
    return pipeline_beside_shards_of(draw);
  if (seed >= first_grouped_seed)
    return grouped_of(draw);
  if (seed >= first_tensor_seed)
    return tensor_of(draw);
  if (seed >= first_pipeline_seed)
    return pipeline_of(draw);
  Scenario out;
  out.kind = static_cast<Kind>(draw.below(served_kinds));
  out.workers = static_cast<uint32_t>(draw.between(1, 3));
  out.shards = static_cast<uint32_t>(draw.between(1, 2));
  out.chain = static_cast<uint32_t>(draw.between(1, 3));
  if (draw.below(3) == 0)
    out.changes = static_cast<uint32_t>(draw.between(1, 3));
  out.exact = out.kind == Kind::tables && draw.chance(50);
  fill_in(out);
  return out;
}

Scenario undisturbed(const Scenario& scenario) {
  auto out = scenario;
  out.workers = out.shards = out.chain = 1;
  out.changes = 0;
  out.stages.count = out.stages.pipelines = out.stages.members = 1;
  out.stages.schedule = out.stages.norms ? "gpipe" : "1f1b";
  out.stages.recompute = false;
  fill_in(out);
  return out;
}

std::string Scenario::layout() const {
  const auto beside = stages.beside_shards
                        ? ", " + std::to_string(shards) + " shards, chains of "
                            + std::to_string(chain)
                        : std::string{};
  if (kind == Kind::grouped)
    return std::to_string(stages.pipelines) + " pipelines, "
           + (stages.tied ? "tied weights, " : "")
           + std::to_string(stages.count) + " stages of "
           + std::to_string(stages.members) + " members, " + stages.schedule
           + (stages.recompute ? ", computed again" : "")
           + (stages.clips ? ", clipped" : "") + beside;
  if (staged())
    return (stages.pipelines > 1
              ? std::to_string(stages.pipelines)
                  + (kind == Kind::tensor ? " groups, " : " pipelines, ")
              : (kind == Kind::tensor ? "tensor, " : "pipeline, "))
           + std::string{stages.tied ? "tied weights, " : ""}
           + (stages.norms ? "norms, " : "") + std::to_string(stages.count)
           + (kind == Kind::tensor ? " members" : " stages, " + stages.schedule)
           + (stages.recompute ? ", computed again" : "")
           + (stages.clips ? ", clipped" : "") + beside;
  constexpr const char* names[] = {"sync",  "scalars", "tables",
                                   "async", "bounded", "async tables"};
  return std::string{names[static_cast<int>(kind)]} + ", "
         + std::to_string(workers) + " workers, " + std::to_string(shards)
         + " shards, chains of " + std::to_string(chain)
         + (exact ? ", exact rows" : "");
}

std::string Scenario::describe() const {
  return layout()
         + (changes > 0 ? ", " + std::to_string(changes) + " changes" : "");
}

} // namespace troupe::real
