#pragma once

#include "kernels/data/dataset.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "strategies/learning_rate.hpp"
#include "strategies/mesh.hpp"
#include "strategies/plan.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// How the stages of a pipeline, or of several, take a step's micro-batches.
struct StageSchedule {
  std::string order = "auto";     ///< PipelineSchedule
  std::string recompute = "none"; ///< full: activations are computed again
  uint32_t chunks = 0; ///< of a stage, interleaved; 0: two there, else one
};

/// How samples are reached, which changes nothing of what they are.
struct DataAccess {
  uint64_t memory = 0; ///< bytes of samples a process holds; 0: any
  std::string cache;   ///< DIR:SIZE for what lies elsewhere; empty: none
  /// Of a fetch from elsewhere with all its tries, and of a wait for readers.
  uint32_t timeout_s = 60;
  uint32_t readers = 0; ///< that read for the workers; 0: they do themselves
};

/// How the model is cut.
struct ModelCut {
  std::string split_at; ///< of stages: operators that they begin with
  /// That dense layers are cut into, whatever the strategy; fixes bits.
  uint32_t virtual_slices = 1;
  /// Bytes of memory_needs() that a role may have; 0: any.
  uint64_t device_memory = 0;
  Sharding sharding = Sharding::parameters; ///< of fully_sharded
  uint32_t tensor = 2; ///< members of strategy tensor that share the slices
  Mesh mesh{2, 2, 1};  ///< of hybrid
  std::string sync_data = "all_reduce"; ///< of hybrid, over its data axis
};

/// How long is waited for roles.
struct Deadlines {
  uint64_t join_ms = 30'000; ///< after the last one that came
  /// Without a sign of life for so long a member counts as lost; 0: a second
  /// and more on one host, three and more where members are on several.
  uint64_t loss_ms = 0;
  /// A run without a step for so long ends. Of one that gives signs of life
  /// the others wait half as long.
  uint64_t step_ms = 120'000;
};

/// Everything that fixes what a job computes and how it is laid out. Parsed
/// and checked once in apps/; travels as JSON from the coordinator to each
/// role, so a role needs an address and certificates only.
struct JobOptions {
  std::string model = "mlp:784-512-256-10";
  std::string data;
  std::string eval_data;      ///< empty: none
  double eval_fraction = 0.0; ///< excludes eval_data
  DataAccess data_access;
  Strategy strategy = Strategy::mirrored;
  Synchronisation synchronisation = Synchronisation::sync;
  /// Async: largest lead over the slowest worker, in leases; -1: no bound.
  int64_t staleness = -1;
  /// Async: a push computed on parameters that have had more updates since is
  /// refused and its lease computed again; -1: none is too old.
  int64_t reject_stale = -1;
  std::string staleness_damping = "none"; ///< inverse_sqrt, inverse
  std::string prefetch = "auto";          ///< on, off; Job::prefetches()
  /// parameter_server. on: slices that the next forward pass needs first are
  /// sent first, and it begins as they arrive; off.
  std::string priority = "on";
  /// Sync: a step waits for all but so many workers (k of n).
  uint32_t backup_workers = 0;
  std::string slow_worker; ///< INDEX:FACTOR, for experiments; empty: none
  std::vector<std::string> devices; ///< resolved: "cpu:0", "cpu:1", …
  uint32_t threads_per_device = 1;
  uint32_t workers = 2;
  uint32_t shards = 1;
  uint32_t chain = 1;     ///< replicas of a shard
  uint32_t stages = 2;    ///< of pipeline
  StageSchedule schedule; ///< of pipeline and hybrid
  ModelCut cut;
  bool processes = false;
  std::string partitioner = "max_size:1048576";
  /// parameter_server. sparse, which a model has to allow; dense; auto: sparse
  /// where that is possible.
  std::string tables = "auto";
  /// parameter_server with sparse tables. Who keeps the dense variables:
  /// shards; or, all_reduced, every worker, and they reduce the gradients.
  std::string dense = "shards";
  /// Of tables that only ids read, whatever the strategy. lazy: what has no
  /// gradient in a step stays as it is; exact: every row has every update.
  std::string sparse_updates = "lazy";
  uint64_t table_bytes = 0;      ///< of rows of all tables; 0: no limit
  uint64_t table_idle_steps = 0; ///< rows are evicted after; 0: never
  uint32_t table_keep_count = 0; ///< touched so often, they stay longer
  bool table_fill = false;       ///< all rows are there from the beginning
  /// The run ends with hashes (and --save) of all parameters; else no snapshot
  /// is taken at the end: of tables larger than memory has twice.
  bool digests = true;
  std::string reduction = "reproducible";
  std::string all_reduce = "auto";
  std::string compress = "none";
  std::string plugin;        ///< shared object that roles load; empty: none
  std::string server_filter; ///< of parameter_server; kernels/server_code.hpp
  std::string server_rule;
  double bucket_mb = 0;                 ///< 0: tuned
  std::string link = "auto";            ///< tcp or shm: no other will do
  std::string link_encryption = "auto"; ///< on, off; auto: off on loopback
  uint32_t virtual_ranks = 4;
  uint32_t global_batch = 64;
  uint64_t epochs = 1; ///< 0: no limit
  uint64_t steps = 0;  ///< 0: no limit
  std::string optimizer = "adam";
  OptimizerOptions rule;
  double clip_norm = 0; ///< 0: no clipping
  double dropout = -1;  ///< overrides the model's rate; below 0: does not
  std::string precision = "float32";
  double learning_rate = 1e-3;
  LrShape lr;
  uint64_t seed = 0;
  std::string isa = "auto";
  uint64_t eval_every = 1;      ///< epochs; 0: at the end only
  uint64_t histogram_every = 0; ///< steps; 0: nobody asks how values lie
  Deadlines deadlines;
  /// Shape and number of the training samples. Job fills them in, so that a
  /// role that computes no gradient makes the same job without the data.
  SampleShape sample;
  uint64_t samples = 0;
  /// Folder of the checkpoint that the job begins with, readable wherever a
  /// role runs; empty: it begins with what its seed makes.
  std::string resume_from;
  bool evaluates = false; ///< there are held-out samples: the coordinator says
};

/// How long members of several hosts may be silent.
inline std::chrono::milliseconds loss_between_hosts(const JobOptions& options) {
  const auto given = options.deadlines.loss_ms;
  return std::chrono::milliseconds{given > 0 ? given : 3'000};
}

/// How long a member waits for others that are at a pass, or compile one.
inline std::chrono::milliseconds pass_patience(const JobOptions& options) {
  return std::chrono::milliseconds{options.deadlines.step_ms / 2};
}

/// Errors of from_json: InputError naming the field.
std::string to_json(const JobOptions& options);
JobOptions job_from_json(const std::string& text);

} // namespace troupe
