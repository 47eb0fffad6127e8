#include "tests/sim/scenario.hpp"

#include "tests/sim/runtime.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace troupe::sim {

std::string to_string(Fault fault) {
  constexpr const char* names[] = {"kill worker",
                                   "kill shard",
                                   "kill host",
                                   "pause",
                                   "stop",
                                   "cut link",
                                   "cut control",
                                   "one way",
                                   "delay",
                                   "repeat",
                                   "cut off",
                                   "clock jump",
                                   "kill coordinator",
                                   "slow disk",
                                   "full disk",
                                   "lose chain",
                                   "kill standby",
                                   "kill voter",
                                   "stop leader",
                                   "split",
                                   "host kill",
                                   "host cut",
                                   "host slow",
                                   "signal all",
                                   "unreadable",
                                   "stuck disk",
                                   "memory"};
  return names[static_cast<int>(fault)];
}

std::string to_string(Phase phase) {
  constexpr const char* names[] = {"forming", "sealing",    "linking",
                                   "copying", "pulling",    "computing",
                                   "pushing", "forwarding", "quiet"};
  return names[static_cast<int>(phase)];
}

namespace {

using Kind = Scenario::Kind;

/// A table of five pages, of which a sample touches some.
constexpr uint32_t ids_of_sample = 3;
constexpr uint32_t vocabulary = 300;

JobData samples_with_ids(uint64_t samples) {
  auto data = std::make_shared<Dataset>();
  data->name = "simulated";
  data->shape.ids = ids_of_sample;
  data->shape.vocabulary = vocabulary;
  data->shape.label = LabelKind::binary;
  Random draw{samples};
  for (uint64_t i = 0; i < samples * ids_of_sample; ++i)
    data->ids.push_back(
      draw.chance(10) ? -1 : static_cast<int32_t>(draw.below(vocabulary)));
  return {data, nullptr};
}

/// A batch norm over all virtual ranks.
constexpr const char* model_with_norm =
  R"({"sample": {"features": [4], "classes": 2},
    "operators": [{"kind": "batch_norm", "cross_replica": true},
      {"kind": "dense", "units": 3, "activation": "relu"},
      {"kind": "dense", "units": "classes"},
      {"kind": "softmax_cross_entropy"}]})";

/// Odd sizes: steps of unequal micro-batches, an epoch's last step in which
/// some virtual ranks have no sample.
JobOptions options_of(const Scenario& scenario, uint32_t virtual_ranks) {
  JobOptions options;
  options.model = "mlp:4-3-2";
  options.data = "memory:";
  options.devices = {"cpu:0"};
  options.strategy = Strategy::parameter_server;
  options.sample.features = {4};
  options.sample.classes = 2;
  options.workers = scenario.workers;
  options.shards = scenario.shards;
  options.chain = scenario.chain;
  options.virtual_ranks = virtual_ranks;
  options.epochs = 0;
  options.steps = 50;
  options.eval_every = 0;
  options.seed = 7;
  options.bucket_mb = 1e-6; // each variable leaves when its gradient is final
  options.prefetch = scenario.workers % 2 == 0 ? "on" : "off";
  options.priority = scenario.workers % 3 == 0 ? "off" : "on";
  options.synchronisation = scenario.async() || scenario.free_rows
                              ? Synchronisation::async
                              : Synchronisation::sync;
  options.staleness = scenario.staleness;
  if (scenario.gradient() == GradientKind::counted) {
    // Powers of two, so that updates are exact: see oracle.cpp.
    options.samples = 64;
    options.global_batch = 2 * virtual_ranks;
    options.optimizer = "sgd";
    options.rule.kind = OptimizerKind::sgd;
    options.learning_rate = 1;
  } else {
    options.samples = 2 * virtual_ranks * 3 + virtual_ranks / 2;
    options.global_batch = 2 * virtual_ranks + 1;
    options.optimizer = "adam";
    options.rule.kind = OptimizerKind::adam;
    options.learning_rate = 0.01;
  }
  if (scenario.has_tables()) {
    options.model = "logreg";
    options.tables = "sparse";
    options.sample.features = {3};
    options.sample.ids = ids_of_sample;
    options.sample.vocabulary = vocabulary;
    options.sample.classes = 0;
    options.sample.label = LabelKind::binary;
  }
  if (scenario.exact) {
    options.sparse_updates = "exact";
    // Without decay rows are made on first use.
    options.rule.weight_decay = virtual_ranks == 8 ? 0.0f : 0.1f;
  }
  if (scenario.kind == Kind::dense_reduced)
    options.dense = "all_reduced";
  if (scenario.kind == Kind::scalars || scenario.clips)
    options.clip_norm = 2;
  if (scenario.kind == Kind::replicas)
    options.strategy = Strategy::multi_worker_mirrored;
  if (scenario.norms)
    options.model = model_with_norm;
  if (scenario.kind == Kind::backup) {
    options.backup_workers = 1;
    options.reduction = "fast";
  }
  return options;
}

void make_job(Scenario& scenario, uint32_t virtual_ranks) {
  using Key = std::tuple<Kind, uint32_t, uint32_t, uint32_t, int64_t, uint32_t,
                         GradientKind, bool, bool, bool>;
  static std::map<Key, std::shared_ptr<const Job>> jobs;
  auto& job =
    jobs[{scenario.kind, scenario.workers, scenario.shards, scenario.chain,
          scenario.staleness, virtual_ranks, scenario.gradient(),
          scenario.clips, scenario.exact, scenario.norms}];
  if (!job)
    job = std::make_shared<const Job>(options_of(scenario, virtual_ranks));
  scenario.job = job;
  if (scenario.has_tables()) {
    static std::map<uint64_t, JobData> data;
    auto& samples = data[job->options.samples];
    if (!samples.train)
      samples = samples_with_ids(job->options.samples);
    scenario.data = samples;
  }
}

/// How often the job is asked to switch. Of a draw of its own, so that worlds
/// that found a bug stay as they were.
uint32_t switches_of(const Scenario& scenario, uint64_t seed) {
  Random draw{seed + 3'043'914};
  const bool drawn = draw.below(6) == 0;
  return !drawn || scenario.reckless || scenario.kind == Kind::scalars
             || scenario.kind == Kind::tables
           ? 0
           : static_cast<uint32_t>(draw.between(1, 3));
}

/// The same of replicas, which take the place of what else was drawn.
void draw_replicas(Scenario& out, uint32_t& virtual_ranks, uint64_t seed) {
  Random draw{seed + 2'051'992};
  out.norms = seed >= first_norm_seed;
  if (draw.below(10) != 0 && !out.norms)
    return;
  out.kind = Kind::replicas;
  out.workers = static_cast<uint32_t>(draw.between(2, 4));
  out.shards = 0;
  out.chain = 1;
  out.staleness = -1;
  out.changes = 0;
  out.switches = 0;
  out.reckless = false;
  out.streams = draw.chance(60);
  out.clips = draw.chance(25);
  const uint32_t ranks[] = {4, 5, 8};
  virtual_ranks = ranks[draw.below(3)];
}

/// The same of workers beside shards with norms, which may come and go.
void draw_served_norms(Scenario& out, uint32_t& virtual_ranks, uint64_t seed) {
  Random draw{seed + 8'640'017};
  if (!out.norms || seed % 2 == 1)
    return;
  out.kind = draw.chance(25) ? Kind::scalars : Kind::sync;
  out.workers = static_cast<uint32_t>(draw.between(2, 4));
  out.shards = static_cast<uint32_t>(draw.between(1, 2));
  out.chain = static_cast<uint32_t>(draw.between(1, 2));
  out.changes = draw.chance(40) ? static_cast<uint32_t>(draw.between(1, 3)) : 0;
  out.clips = false;
  const uint32_t ranks[] = {4, 5, 8};
  virtual_ranks = ranks[draw.below(3)];
}

/// … whose workers all-reduce the dense layers, but for who asks for changes,
/// and how the coordinator lives.
void draw_dense_reduced(Scenario& out, uint32_t& virtual_ranks, uint64_t seed) {
  Random draw{seed + 9'001'450};
  if (draw.below(12) != 0 || out.kind == Kind::replicas || out.norms)
    return;
  out.kind = Kind::dense_reduced;
  out.workers = static_cast<uint32_t>(draw.between(2, 3));
  out.shards = static_cast<uint32_t>(draw.between(1, 2));
  out.chain = static_cast<uint32_t>(draw.between(1, 2));
  out.switches = 0;
  out.streams = draw.chance(60);
  out.free_rows = draw.chance(40);
  out.staleness =
    out.free_rows && draw.chance(60) ? static_cast<int64_t>(draw.below(4)) : -1;
  const uint32_t ranks[] = {4, 5, 8};
  virtual_ranks = out.free_rows ? 4 : ranks[draw.below(3)];
}

/// … of hosts, with what they do not have taken away.
void draw_hosts(Scenario& out, uint64_t seed) {
  Random draw{seed + 4'470'001};
  out.hosts = 3;
  if (out.kind == Kind::backup || out.kind == Kind::dense_reduced)
    out.kind = Kind::sync;
  if (out.kind != Kind::replicas) {
    out.workers = static_cast<uint32_t>(draw.between(2, 3));
    out.chain = static_cast<uint32_t>(draw.between(1, 2));
  }
  if (out.kind != Kind::bounded)
    out.staleness = -1;
  out.free_rows = false;
  out.streams = out.kind == Kind::replicas;
  out.changes = out.switches = 0;
  out.reckless = out.kept = out.standby = false;
}

/// Every how many of them may lose more than the job promises to survive.
constexpr uint64_t reckless_rough = 6;

/// … of rough ones.
void draw_rough(Scenario& out, uint64_t seed) {
  Random draw{seed + 6'118'033};
  out.rough = true;
  if (out.kind == Kind::backup || out.kind == Kind::dense_reduced)
    out.kind = Kind::sync;
  if (out.kind != Kind::replicas) {
    out.workers = static_cast<uint32_t>(draw.between(2, 3));
    out.shards = static_cast<uint32_t>(draw.between(1, 2));
    out.chain = static_cast<uint32_t>(draw.between(1, 2));
  }
  if (out.kind != Kind::bounded)
    out.staleness = -1;
  out.free_rows = false;
  out.changes = out.switches = 0;
  // Some are told to end while they roll back, or after.
  out.reckless = out.kind == Kind::sync && seed % reckless_rough == 0;
  out.standby = draw.chance(35);
  out.kept = out.standby || draw.chance(60);
}

} // namespace

Scenario scenario_of(uint64_t seed) {
  Random draw{seed * 2 + 1};
  Scenario out;
  const auto kind = draw.below(10);
  out.kind = kind < 3   ? Kind::sync
             : kind < 5 ? Kind::scalars
             : kind < 6 ? Kind::backup
             : kind < 7 ? Kind::bounded
                        : Kind::async;
  out.workers = static_cast<uint32_t>(draw.between(1, 3));
  out.shards = static_cast<uint32_t>(draw.between(1, 2));
  out.chain = static_cast<uint32_t>(draw.between(1, 3));
  if (out.kind == Kind::backup)
    out.workers = std::max(out.workers, 2u);
  if (out.kind == Kind::bounded)
    out.staleness = static_cast<int64_t>(draw.below(4));
  const uint32_t ranks[] = {4, 5, 8};
  uint32_t virtual_ranks =
    out.gradient() == GradientKind::counted ? 4 : ranks[draw.below(3)];
  out.reckless = draw.below(12) == 0;
  if (draw.below(3) == 0)
    out.changes = static_cast<uint32_t>(draw.between(1, 3));
  out.kept = draw.below(3) == 0;
  if (out.kind == Kind::sync && draw.below(3) == 0)
    out.kind = Kind::tables;
  // A draw of its own, so that worlds that found a bug stay as they were.
  out.standby = Random{seed + 1'137'000}.below(8) == 0;
  out.kept = out.kept || out.standby;
  out.switches = switches_of(out, seed);
  if (out.switches > 0)
    virtual_ranks = 4;
  draw_replicas(out, virtual_ranks, seed);
  draw_served_norms(out, virtual_ranks, seed);
  draw_dense_reduced(out, virtual_ranks, seed);
  if (seed >= first_host_seed && !out.norms) {
    if (seed >= first_rough_seed)
      draw_rough(out, seed);
    else
      draw_hosts(out, seed);
    if (out.gradient() == GradientKind::counted)
      virtual_ranks = 4;
  }
  out.exact = out.has_tables() && !out.free_rows
              && Random{seed + 5'300'028}.below(2) == 0;
  make_job(out, virtual_ranks);
  return out;
}

Scenario undisturbed(const Scenario& scenario) {
  auto out = scenario;
  out.workers = 1;
  out.shards = 1;
  out.chain = 1;
  out.changes = 0;
  out.reckless = false;
  out.kept = false;
  out.standby = false;
  out.hosts = 0;
  out.rough = false;
  if (out.kind == Kind::backup) // nothing is compared with it
    out.workers = 2;
  if (out.kind == Kind::replicas)
    out.kind = out.clips ? Kind::scalars : Kind::sync;
  if (out.kind == Kind::dense_reduced && !out.free_rows)
    out.kind = Kind::tables;
  else if (out.kind == Kind::dense_reduced)
    out.staleness = -1;
  out.clips = false;
  make_job(out, scenario.job->options.virtual_ranks);
  return out;
}

std::string Scenario::describe() const {
  constexpr const char* names[] = {"sync",     "scalars",      "backup",
                                   "async",    "bounded",      "tables",
                                   "replicas", "dense_reduced"};
  return std::string{names[static_cast<int>(kind)]} + ", "
         + std::to_string(workers) + " workers, " + std::to_string(shards)
         + " shards, chains of " + std::to_string(chain) + ", "
         + std::to_string(job->options.virtual_ranks) + " virtual ranks"
         + (staleness < 0 ? "" : ", bound " + std::to_string(staleness))
         + (free_rows ? ", free rows" : "") + (streams ? ", streams" : "")
         + (clips ? ", clipped" : "") + (norms ? ", norms" : "")
         + (exact ? ", exact rows" : "")
         + (changes > 0 ? ", " + std::to_string(changes) + " changes" : "")
         + (switches > 0 ? ", " + std::to_string(switches) + " switches" : "")
         + (reckless ? ", reckless" : "")
         + (hosts > 0 ? ", " + std::to_string(hosts) + " hosts" : "")
         + (rough ? ", rough" : "")
         + (standby ? ", standby"
            : kept  ? ", kept"
                    : "");
}

} // namespace troupe::sim
