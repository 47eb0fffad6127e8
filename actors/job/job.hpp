#pragma once

#include "actors/job/job_options.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "strategies/learning_rate.hpp"
#include "strategies/plan.hpp"
#include "strategies/sampling.hpp"
#include "strategies/staleness.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class Beginning;
class RemoteStore;
class UpdateWatch;

/// Train and evaluation samples of a job, loaded once per process and shared
/// by its roles; `eval` may be null.
struct JobData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> eval;
};
/// The samples that the options name, as they say to hold them. `columns`: what
/// weights say of the data that they were trained on; `unlabelled`: its label
/// may be missing; `trains`: they are read as training mixes them. Errors:
/// those of load_data.
SplitData load_samples(const JobOptions& options,
                       const std::shared_ptr<FittedColumns>& columns = nullptr,
                       bool unlabelled = false, bool trains = false);
JobData load_job_data(const JobOptions& options); ///< text cut into windows

/// Reads objects elsewhere as the options say; keys are those of this process.
/// Errors: InputError where the folder to keep them in cannot be used.
std::shared_ptr<RemoteStore> store_of(const DataAccess& access);

/// The graph of `--model` cut as --virtual-slices says.
/// Errors: UsageError where nothing of it can be cut so.
Graph in_virtual_slices(const Graph& whole, const std::string& model,
                        uint32_t slices);

/// A job's options with all that follows from them; equal in every process.
struct Job {
  JobOptions options;
  Graph graph;
  std::vector<uint32_t> tables; ///< parameters that are sparse tables
  /// What a worker computes: `graph` with tables of the step's rows alone.
  Graph worker_graph;
  Layout layout; ///< of the worker's graph
  /// Parameters whose updates are lazy (--sparse-updates).
  std::vector<uint32_t> lazy;
  Plan plan;
  Sampling sampling;
  uint64_t total_steps = 0; ///< sync steps, or V leases each in async mode
  LrOptions lr;
  /// How the columns of a table became samples, as JSON (fitted_columns.hpp):
  /// kept with weights. Empty: other data, or not known here.
  std::string columns;
  /// The same of other data: the characters of a text, and what scale=standard
  /// is by.
  std::string data_fit;
  /// Null: version 0, which the seed makes.
  std::shared_ptr<const Beginning> beginning;
  /// Null: nobody watches updates.
  std::shared_ptr<UpdateWatch> updates;

  /// Takes number and shape of the samples from the options; without a shape, a
  /// model that fits itself to the data is planned for its usual data.
  /// Errors: UsageError when the plan is refused, InputError when the samples
  /// do not have the model's shape.
  explicit Job(JobOptions options);
  Job(JobOptions options, uint64_t samples);
  Job(JobOptions options, const Dataset& train);

  /// The first version that there is.
  uint64_t first_step() const;
  /// Versions at which owners send a snapshot for evaluation, the last one
  /// included.
  bool is_snapshot_version(uint64_t version) const;
  /// Where a worker computes, one beyond the plan included.
  const std::string& device_of(RoleId worker) const;
  Precision precision() const;
  StalenessDamping damping() const;
  /// Async: a worker pulls for its next lease while it computes one. auto:
  /// where there are rows to wait for, and no push is refused for its age.
  bool prefetches() const;
  /// With --priority on, a forward pass begins as parameters arrive.
  bool begins_early() const { return options.priority == "on"; }
  /// Readers read the training samples of a role of this kind.
  bool is_read_for(RoleKind kind) const {
    return kind == RoleKind::worker && options.data_access.readers > 0;
  }
  /// Leaves are computed side by side, as their passes need something of each
  /// other: statistics over all virtual ranks.
  bool goes_in_lock_step() const;
  /// Workers have a share of the parameters, or of their gradients, and take
  /// leaves through the model part by part.
  bool goes_by_parts() const {
    return plan.paired && options.cut.sharding != Sharding::optimizer;
  }
  /// No node of a step reaches over two of them: the virtual ranks of each
  /// worker of the plan, where a step can be made without some (k of n),
  /// otherwise all as one.
  std::vector<RankRange> shares() const;
  /// Says that steps have one sample, of which a batch norm learns nothing, and
  /// which sizes fit; empty: none has.
  std::string lone_samples() const;
  /// Of tables that would be sparse, had the job no readers; empty: none is.
  std::string dense_for_readers() const;
  /// Rows of the largest micro-batch.
  uint32_t max_rows() const;
  /// Rows of a step's tables at most: ids that one worker's samples can have.
  uint64_t max_table_rows() const;
  /// Index of a slice's first element in the flat parameter buffer; of a part
  /// of a sparse table: where its table's rows begin.
  uint64_t flat_offset(const Slice& slice) const;
};

} // namespace troupe
