#include "actors/job/job.hpp"

#include "actors/job/beginning.hpp"
#include "actors/job/sharded_parts.hpp"
#include "actors/job/stage_layers.hpp"
#include "actors/job/stage_mesh.hpp"
#include "actors/job/tensor_layers.hpp"
#include "actors/job/update_watch.hpp"
#include "kernels/base/error.hpp"
#include "kernels/collective/shared_control.hpp"
#include "kernels/columns/fitted_columns.hpp"
#include "kernels/compression/compressor.hpp"
#include "kernels/graph/sleep_model.hpp"
#include "kernels/graph/virtual_slices.hpp"
#include "kernels/server_code.hpp"
#include "kernels/table/compact_graph.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace troupe {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OptimizerOptions, kind, momentum, beta1,
                                   beta2, epsilon, weight_decay, ftrl_beta, l1,
                                   l2)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SampleShape, features, ids, vocabulary,
                                   label, classes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LrShape, schedule, min, warmup_steps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StageSchedule, order, recompute, chunks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DataAccess, memory, cache, timeout_s,
                                   readers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Deadlines, join_ms, loss_ms, step_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Mesh, data, stages, tensor)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelCut, split_at, virtual_slices,
                                   device_memory, sharding, tensor, mesh,
                                   sync_data)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
  JobOptions, model, data, eval_data, eval_fraction, data_access, strategy,
  synchronisation, staleness, reject_stale, staleness_damping, prefetch,
  priority, backup_workers, slow_worker, devices, threads_per_device, workers,
  shards, chain, stages, schedule, cut, processes, partitioner, tables, dense,
  sparse_updates, table_bytes, table_idle_steps, table_keep_count, table_fill,
  digests, reduction, all_reduce, compress, plugin, server_filter, server_rule,
  bucket_mb, link, link_encryption, virtual_ranks, global_batch, epochs, steps,
  optimizer, rule, clip_norm, dropout, precision, learning_rate, lr, seed, isa,
  eval_every, histogram_every, deadlines, sample, samples, resume_from,
  evaluates)

std::string to_json(const JobOptions& options) {
  return nlohmann::json(options).dump();
}

JobOptions job_from_json(const std::string& text) {
  try {
    return nlohmann::json::parse(text).get<JobOptions>();
  } catch (const nlohmann::json::exception& failure) {
    throw InputError(std::string{"job options: "} + failure.what());
  }
}

namespace {

/// Workers that sum their gradients meet in memory that has places for some.
void check_group(const Plan& plan) {
  const auto workers =
    std::ranges::count_if(plan.roles, [](const RolePlan& role) {
      return role.role.kind == RoleKind::worker;
    });
  const bool sums = plan.dense_reduced
                    || plan.strategy != Strategy::parameter_server;
  if (sums && workers > int64_t{SharedControl::max_members})
    throw UsageError(std::to_string(workers) + " workers cannot sum together, "
                     + std::to_string(SharedControl::max_members)
                     + " can: use fewer --workers or --devices, or --strategy "
                       "parameter_server");
}

/// Buffers follow the samples, where those are fewer than the batch.
uint64_t max_step_rows(const JobOptions& options) {
  return std::clamp<uint64_t>(options.samples, 1, options.global_batch);
}

std::vector<Variable> variables_of(const JobOptions& options,
                                   const Graph& graph,
                                   const std::vector<uint32_t>& tables) {
  std::vector<Variable> variables;
  for (const auto& parameter : graph.parameters)
    variables.push_back({parameter.name, parameter.shape});
  for (auto table : tables)
    variables[table].partitions =
      table_partitions(variables[table], max_step_rows(options) * graph.ids());
  return variables;
}

Plan plan_of(const JobOptions& options, const Graph& graph,
             const std::vector<uint32_t>& tables) {
  PlanOptions wanted;
  wanted.strategy = options.strategy;
  wanted.synchronisation = options.synchronisation;
  wanted.workers = options.workers;
  wanted.shards = options.shards;
  wanted.chain = options.chain;
  wanted.serves_stages = has_served_stages(options);
  wanted.sharding = options.cut.sharding;
  wanted.devices = options.devices;
  wanted.virtual_ranks = options.virtual_ranks;
  wanted.global_batch = options.global_batch;
  wanted.processes = options.processes;
  wanted.any_order = options.reduction == "fast";
  wanted.all_reduce = options.all_reduce;
  wanted.compresses = options.compress != "none";
  wanted.backup_workers = options.backup_workers;
  wanted.dense_reduced = options.dense == "all_reduced";
  wanted.readers = options.data_access.readers;
  check_sharded_parts(options, graph);
  if (has_stages(options) && options.virtual_ranks > 0
      && options.global_batch > 0) {
    const Sampling sampling{options.seed,
                            std::max<uint64_t>(1, options.samples),
                            options.global_batch, options.virtual_ranks,
                            min_rows(graph)};
    wanted.stages = stage_layers(options, graph, sampling.max_of_rank());
    const auto shape = pipeline_shape(options, micro_batches(options));
    wanted.data = mesh_of(options).data;
    wanted.chunks = shape.chunks;
    wanted.schedule = to_string(shape.schedule);
    if (shape.chunks > 1)
      wanted.schedule += " with " + std::to_string(shape.chunks)
                         + " chunks a stage";
    const auto& again = options.schedule.recompute;
    if (again != "none")
      wanted.schedule += ", activations "
                         + (again == "full" ? "" : "of " + again + ' ')
                         + "computed again";
  }
  if (has_tensor_members(options)) {
    wanted.tensor = tensor_shares(options, graph, wanted.stages);
    wanted.data = mesh_of(options).data;
  }
  PlanError error;
  if (!parse(options.partitioner, wanted.partitioner))
    throw UsageError("--partitioner " + options.partitioner
                     + ": expected fixed:N, min_size:BYTES[:N] or "
                       "max_size:BYTES");
  Plan plan;
  if (!make_plan(wanted, variables_of(options, graph, tables), plan, error))
    throw UsageError(error.message);
  check_group(plan);
  return plan;
}

uint64_t steps_of(const JobOptions& options, const Sampling& sampling) {
  auto limit = std::numeric_limits<uint64_t>::max();
  if (options.epochs > 0)
    limit = options.epochs * sampling.steps_per_epoch();
  if (options.steps > 0)
    limit = std::min(limit, options.steps);
  if (limit == std::numeric_limits<uint64_t>::max())
    throw UsageError("nothing ends the run: add --epochs N or --steps N");
  return limit;
}

} // namespace

namespace {

JobOptions of_samples(JobOptions options, uint64_t samples,
                      const SampleShape& shape) {
  options.samples = samples;
  options.sample = shape;
  return options;
}

/// The transformer's text holds its rate: "-P0.1".
std::string with_dropout(const std::string& model, double rate) {
  auto text = model;
  if (auto old = text.find("-P"); old != std::string::npos) {
    auto end = text.find('-', old + 1);
    text.erase(old, end == std::string::npos ? end : end - old);
  }
  return text + (text.find(':') == std::string::npos ? ":P" : "-P")
         + std::to_string(rate); // no exponent, whose sign ends a part
}

void check_server_code(const JobOptions& options) {
  if (!options.plugin.empty())
    load_plugin(options.plugin);
  find_gradient_filter(options.server_filter);
  find_server_rule(options.server_rule);
  if (options.server_filter.empty() && options.server_rule.empty())
    return;
  const std::string flag = options.server_rule.empty() ? "--server-filter"
                                                       : "--server-rule";
  if (options.strategy != Strategy::parameter_server)
    throw UsageError(flag
                     + " is run by shards: add --strategy parameter_server, "
                       "or drop it");
  if (options.tables == "sparse")
    throw UsageError(flag
                     + " sees slices of dense variables: use --tables "
                       "dense, or drop it");
}

JobOptions resolved(JobOptions options) {
  if (options.dropout >= 0 && options.model.starts_with("transformer"))
    options.model = with_dropout(options.model, options.dropout);
  if (options.rule.kind == OptimizerKind::lamb
      && options.synchronisation == Synchronisation::async)
    throw UsageError("--optimizer lamb needs the whole gradient of a step, "
                     "which --async does not have; use adamw or --sync");
  if (options.strategy == Strategy::fully_sharded)
    options.shards = options.workers;
  parse_compression(options.compress);
  check_server_code(options);
  return options;
}

void set_dropout(const JobOptions& options, Graph& graph) {
  if (options.dropout < 0)
    return;
  bool found = false;
  for (auto& op : graph.ops)
    if (op.kind == OpKind::dropout) {
      op.attributes.rate = static_cast<float>(options.dropout);
      found = true;
    }
  if (!found && options.dropout > 0)
    throw UsageError("--dropout: --model " + options.model
                     + " has no dropout; leave it out");
}

Graph graph_of(const JobOptions& options) {
  auto graph = make_graph(options.model, options.sample);
  set_dropout(options, graph);
  return in_virtual_slices(graph, options.model, options.cut.virtual_slices);
}

/// Dense layers are reduced between workers only beside tables on shards.
void check_dense(const JobOptions& options, const Graph& graph,
                 const std::vector<uint32_t>& tables) {
  if (options.dense != "all_reduced"
      || options.strategy != Strategy::parameter_server)
    return;
  if (options.reject_stale >= 0)
    throw UsageError("--reject-stale hands a lease out again, and the steps of "
                     "--dense all_reduced hand out none: use --staleness N, "
                     "or --dense shards");
  if (sparse_parameters(graph).empty())
    throw UsageError("--dense all_reduced: --model " + options.model
                     + " has no table that only ids read; use --strategy "
                       "multi_worker_mirrored, which reduces all of it");
  if (sparse_parameters(graph).size() == graph.parameters.size())
    throw UsageError("--dense all_reduced: --model " + options.model
                     + " has nothing but tables; use --dense shards");
  if (options.clip_norm > 0 || options.rule.kind == OptimizerKind::lamb)
    throw UsageError("--dense all_reduced: --clip-norm and --optimizer lamb "
                     "need norms over rows and layers, which nobody has both "
                     "of; drop them, or use --dense shards");
  if (tables.empty())
    throw UsageError("--dense all_reduced needs sparse tables, which --tables "
                     "dense, --sparse-updates exact (but with --tables "
                     "sparse), --server-filter and --server-rule do without; "
                     "drop those, or use --dense shards");
}

/// What rows that make up updates later have no way to know.
void check_exact_rows(const JobOptions& options) {
  std::string why;
  if (options.synchronisation == Synchronisation::async)
    why = "--async, whose learning rates are of leases";
  else if (options.rule.kind == OptimizerKind::lamb)
    why = "--optimizer lamb, whose ratio is of a whole table";
  else if (options.clip_norm > 0)
    why = "--clip-norm, whose norm over rows has other bits than over a table";
  if (!why.empty())
    throw UsageError("--sparse-updates exact with --tables sparse has rows "
                     "make up updates later, which does not go with "
                     + why + ": use --tables dense, or --sparse-updates lazy");
}

std::vector<uint32_t> sparse_tables(const JobOptions& options,
                                    const Graph& graph) {
  const bool served = options.strategy == Strategy::parameter_server;
  if (!served || options.tables == "dense")
    return {};
  if (options.data_access.readers > 0) {
    if (options.tables == "sparse" || options.dense == "all_reduced"
        || options.table_fill || options.table_bytes > 0
        || options.table_idle_steps > 0)
      throw UsageError("--readers: workers of sparse tables look at the ids of "
                       "samples before they compute, and read them themselves "
                       "as yet; use --tables dense, or drop --readers");
    return {};
  }
  auto tables = sparse_parameters(graph);
  const bool exact = options.sparse_updates == "exact";
  if (exact && options.tables == "sparse")
    check_exact_rows(options);
  const bool own_code = !options.server_filter.empty()
                        || !options.server_rule.empty();
  // Whether a sleeping model has one is up to the data, not known at first.
  const bool told = options.sample.known() || !sleep_model(options.model);
  if (options.tables == "sparse" && tables.empty() && told)
    throw UsageError("--tables sparse: --model " + options.model
                     + " has no table that only ids read; use --tables dense");
  const bool limited = options.table_fill || options.table_bytes > 0
                       || options.table_idle_steps > 0;
  if (limited && tables.empty() && options.sample.known())
    throw UsageError("--table-fill, --table-bytes and --table-idle-steps are "
                     "of sparse tables, and --model "
                     + options.model + " has none; drop them");
  return own_code || (exact && options.tables != "sparse")
           ? std::vector<uint32_t>{}
           : tables;
}

/// Whether an update is lazy belongs to the optimizer, not to who keeps a
/// table.
std::vector<uint32_t> lazy_parameters(const JobOptions& options,
                                      const Graph& graph) {
  auto read_by_ids = sparse_parameters(graph);
  const bool exact = options.sparse_updates == "exact";
  if (exact && read_by_ids.empty() && options.sample.known())
    throw UsageError("--sparse-updates exact is of tables that only ids read, "
                     "and --model "
                     + options.model + " has none; drop it");
  return exact ? std::vector<uint32_t>{} : read_by_ids;
}

std::vector<uint32_t> tables_of(const JobOptions& options, const Graph& graph) {
  auto tables = sparse_tables(options, graph);
  check_dense(options, graph, tables);
  return tables;
}

uint64_t table_rows(const JobOptions& options, const Graph& graph) {
  // There is room for a whole step, also asynchronously: a run may be switched.
  return std::max<uint64_t>(1, max_step_rows(options) * graph.ids());
}

/// Nobody but a specification says that there are any.
SampleBlocks sample_blocks(const JobOptions& options) {
  if (options.data.find("shuffle=") == std::string::npos)
    return {};
  const auto rule = mix_rule(parse_data_spec(options.data));
  return {rule.block, rule.window};
}

/// Members take whole passes of their own, step by step.
bool computes_whole_passes(const JobOptions& options) {
  const auto strategy = options.strategy;
  return strategy == Strategy::one_device || strategy == Strategy::mirrored
         || strategy == Strategy::central_storage
         || strategy == Strategy::multi_worker_mirrored
         || strategy == Strategy::parameter_server
         || (strategy == Strategy::fully_sharded
             && options.cut.sharding == Sharding::optimizer);
}

/// Statistics over all virtual ranks need an exchange between them in the
/// middle of passes.
void check_cross_replica(const JobOptions& options, const Op& op) {
  const auto start = "--model: operator " + op.name + ": cross_replica";
  if (options.synchronisation == Synchronisation::async)
    throw UsageError(start
                     + " needs all virtual ranks of a step at once, which "
                       "--async computes one by one: drop --async, leave it "
                       "out, or add --virtual-ranks 1");
  if (options.backup_workers > 0)
    throw UsageError(start
                     + " needs all virtual ranks of a step, and "
                       "--backup-workers goes on without some: drop that, or "
                       "leave it out");
  if ((computes_whole_passes(options) && on_processors(options))
      || (has_stages(options) && !has_tensor_members(options)))
    return;
  throw UsageError(start
                   + ", with more than one virtual rank, is not available yet "
                     "but with --strategy one_device, mirrored, "
                     "central_storage, multi_worker_mirrored, parameter_server "
                     "and fully_sharded with --shard optimizer on CPUs, and "
                     "pipeline or hybrid without tensor members; use one of "
                     "these, leave it out, or add --virtual-ranks 1");
}

uint64_t some(uint64_t samples) {
  if (samples == 0)
    throw InputError("the job has no samples to train on");
  return samples;
}

} // namespace

Graph in_virtual_slices(const Graph& whole, const std::string& model,
                        uint32_t slices) {
  if (slices > 1 && sleep_model(whole.text))
    throw UsageError("--virtual-slices: --model " + model
                     + " waits and multiplies nothing; leave it out");
  auto graph = cut_into_slices(whole, slices);
  if (slices > 1 && graph.wholes.empty())
    throw UsageError("--virtual-slices " + std::to_string(slices) + ": --model "
                     + model
                     + " has no two dense layers in a row of so many units, or "
                       "heads, between them; use fewer, or leave it out");
  return graph;
}

Job::Job(JobOptions given, uint64_t samples)
  : Job(of_samples(std::move(given), samples, {})) {}

Job::Job(JobOptions given, const Dataset& train)
  : Job(of_samples(std::move(given), train.samples(), train.shape)) {
  if (train.fitted)
    (train.fitted->of_table() ? columns : data_fit) = to_json(*train.fitted);
}

Job::Job(JobOptions given)
  : options(resolved(std::move(given))),
    graph(graph_of(options)),
    tables(tables_of(options, graph)),
    worker_graph(compact_graph(graph, tables, table_rows(options, graph))),
    layout(worker_graph),
    lazy(lazy_parameters(options, graph)),
    plan(plan_of(options, graph, tables)),
    sampling(options.seed, some(options.samples), options.global_batch,
             options.virtual_ranks, min_rows(graph), sample_blocks(options)),
    total_steps(steps_of(options, sampling)) {
  // Roles make the same plan of the job without trying all cuts.
  if (options.cut.device_memory > 0 && !names_cuts(options))
    options.cut.split_at = cuts_of(plan.stages);
  lr.shape = options.lr;
  lr.base = options.learning_rate;
  lr.total_steps = total_steps;
  if (options.histogram_every > 0)
    updates = std::make_shared<UpdateWatch>(options.histogram_every,
                                            total_steps);
  for (const auto& op : graph.ops)
    if (op.attributes.cross_replica && options.virtual_ranks > 1)
      check_cross_replica(options, op);
  constexpr uint32_t max_in_lock_step = 256;
  if (goes_in_lock_step() && options.virtual_ranks > max_in_lock_step)
    throw UsageError("--virtual-ranks " + std::to_string(options.virtual_ranks)
                     + ": a model with cross_replica computes all of them at "
                       "once, and can have "
                     + std::to_string(max_in_lock_step));
  if (!options.resume_from.empty()) {
    beginning = std::make_shared<const Beginning>(*this, options.resume_from);
    if (beginning->step() > total_steps)
      throw InputError(options.resume_from + ": is at step "
                       + std::to_string(beginning->step()) + ", after the "
                       + std::to_string(total_steps)
                       + " steps that --steps and --epochs ask for in all; "
                         "raise them");
  }
}

bool Job::goes_in_lock_step() const {
  return options.virtual_ranks > 1
         && std::ranges::any_of(graph.ops, [](const Op& op) {
              return op.attributes.cross_replica;
            });
}

uint64_t Job::first_step() const {
  return beginning ? beginning->step() : 0;
}

bool Job::is_snapshot_version(uint64_t version) const {
  if (version == total_steps)
    return true;
  const auto every = options.eval_every * sampling.steps_per_epoch();
  return options.evaluates && every > 0 && version > 0 && version % every == 0;
}

const std::string& Job::device_of(RoleId worker) const {
  for (const auto& known : plan.roles)
    if (known.role == worker)
      return known.device;
  return options.devices[worker.index % options.devices.size()];
}

Precision Job::precision() const {
  return precision_named(options.precision);
}

bool Job::prefetches() const {
  if (options.prefetch != "auto")
    return options.prefetch == "on";
  return !tables.empty() && options.reject_stale < 0;
}

StalenessDamping Job::damping() const {
  const auto& name = options.staleness_damping;
  return name == "inverse"        ? StalenessDamping::inverse
         : name == "inverse_sqrt" ? StalenessDamping::inverse_sqrt
                                  : StalenessDamping::none;
}

std::vector<RankRange> Job::shares() const {
  if (options.backup_workers == 0)
    return {{0, options.virtual_ranks}};
  std::vector<RankRange> out;
  for (const auto& worker : plan.of_kind(RoleKind::worker))
    out.push_back(worker.ranks);
  return out;
}

std::string Job::lone_samples() const {
  const auto lone = sampling.short_steps();
  if (lone == 0)
    return {};
  return "note: " + std::to_string(lone) + " of "
         + std::to_string(sampling.steps_per_epoch())
         + " steps of an epoch have one sample, of which a batch norm over "
           "plain features learns nothing; "
         + (options.samples == 1 ? "take two samples or more"
                                 : "take --global-batch 3 or more");
}

std::string Job::dense_for_readers() const {
  if (options.strategy != Strategy::parameter_server
      || options.data_access.readers == 0 || options.tables != "auto")
    return {};
  auto without = options;
  without.data_access.readers = 0;
  return sparse_tables(without, graph).empty()
           ? std::string{}
           : "note: --readers has --tables dense: workers of sparse tables "
             "read their samples themselves as yet";
}

uint32_t Job::max_rows() const {
  return sampling.max_of_rank();
}

uint64_t Job::max_table_rows() const {
  return table_rows(options, graph);
}

uint64_t Job::flat_offset(const Slice& slice) const {
  return layout.offsets[slice.variable] + slice.offset;
}

} // namespace troupe
