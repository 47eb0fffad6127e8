#include "actors/job/memory_need.hpp"

#include "actors/job/role_parts.hpp"
#include "actors/job/shard_tables.hpp"
#include "actors/job/sharded_parts.hpp"
#include "actors/job/stage_layers.hpp"
#include "actors/job/stage_memory.hpp"
#include "actors/job/stage_mesh.hpp"
#include "actors/job/statistics_room.hpp"
#include "kernels/base/control_group.hpp"
#include "kernels/base/error.hpp"
#include "kernels/engine/listing.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "strategies/step_ledger.hpp"

#include <algorithm>
#include <bit>
#include <optional>

namespace troupe {
namespace {

/// As far as pipelines are tried for a job that does not fit.
uint32_t max_stages_tried(const JobOptions& given) {
  constexpr uint32_t most = 16;
  return std::max(given.stages, most);
}

/// Two by turns, where others read one while the next is written.
uint64_t banks_of(const Plan& plan) {
  return plan.of_kind(RoleKind::worker).size() > 1 ? 2 : 1;
}

bool is_processor(const RolePlan& role) {
  return role.device.starts_with("cpu");
}

/// Replicas of one process have their variables together, but for devices that
/// keep them.
bool shares_variables(const Job& job) {
  const auto strategy = job.options.strategy;
  return banks_of(job.plan) > 1
         && (strategy == Strategy::central_storage
             || (strategy == Strategy::mirrored
                 && std::ranges::all_of(job.plan.of_kind(RoleKind::worker),
                                        is_processor)
                 && job.options.threads_per_device == 1));
}

MemoryNeed need_of_worker(const Job& job, RoleId role) {
  const auto flat = job.layout.total * sizeof(float);
  const uint64_t slots = state_slots(job.options.rule.kind);
  MemoryNeed need{role, 0, flat, 0};
  if (job.plan.owner_kind == RoleKind::shard && !job.plan.dense_reduced)
    need.variables = flat; // as they were pulled
  else if (!shares_variables(job) || role.index == 0)
    need.variables = banks_of(job.plan) * (1 + slots) * flat;
  return need;
}

/// Nodes of the tree that are pushed of each slice in a step.
std::vector<RankRange> pushed_nodes(const Job& job) {
  const auto& plan = job.plan;
  const auto parts =
    plan.served ? plan.served->data
                : static_cast<uint32_t>(plan.of_kind(RoleKind::worker).size());
  std::vector<RankRange> nodes;
  for (uint32_t part = 0; part < parts; ++part)
    for (auto node :
         maximal_nodes(ranks_of_worker(part, parts, plan.virtual_ranks),
                       plan.virtual_ranks))
      nodes.push_back(node);
  return nodes;
}

/// Of a step that waits for all of them; what is added is in the memory of who
/// pushes, or a message.
MemoryNeed need_of_shard(const Job& job, RoleId role) {
  const uint64_t slots = state_slots(job.options.rule.kind);
  const auto sums = job.plan.synchronisation == Synchronisation::sync
                      ? max_sums_at_once(pushed_nodes(job),
                                         job.plan.virtual_ranks)
                      : 0;
  MemoryNeed need{role, 0, 0, 0};
  for (const auto& slice : job.plan.slices) {
    const auto replicas = job.plan.on_shards(slice.id)
                            ? job.plan.replicas(slice.id)
                            : std::vector<uint32_t>{};
    if (std::ranges::find(replicas, role.index) == replicas.end())
      continue;
    need.variables += 2 * (1 + slots) * slice.count * sizeof(float);
    if (replicas.front() == role.index && !slice.sparse())
      need.gradients += sums * slice.count * sizeof(float);
    if (slice.sparse() && has_all_rows(job, slice))
      need.variables += (1 + slots) * slice.bytes();
  }
  return need;
}

/// Sums that the tree leaves side by side for a slice, and one that is made,
/// where workers push leaf after leaf.
uint64_t sums_of_leaves(const Job& job) {
  const uint64_t ranks = job.options.virtual_ranks;
  const auto of_worker = std::bit_width(ranks / job.options.workers);
  return std::min<uint64_t>((ranks + 1) / 2, job.options.workers * of_worker)
         + 1;
}

/// A worker with the shard of its number: one process.
MemoryNeed need_of_pair(const Job& job, RoleId worker,
                        const ShardedBytes& of_parts) {
  const auto shard = need_of_shard(job, {RoleKind::shard, worker.index});
  if (!job.goes_by_parts()) {
    auto need = need_of_worker(job, worker);
    need.variables += shard.variables;
    return need;
  }
  uint64_t owned = 0;
  for (const auto& slice : job.plan.slices)
    if (job.plan.owner[slice.id] == worker.index)
      owned += slice.count;
  return {worker, shard.variables + of_parts.variables,
          of_parts.gradients + sums_of_leaves(job) * owned * sizeof(float),
          of_parts.step};
}

/// Pipelines side by side need as much, each.
std::vector<MemoryNeed> needs_of_stages(const Job& job, bool with_steps) {
  StageMemory memory{job.options, job.graph, job.max_rows()};
  const auto stages = job.plan.mesh().stages;
  std::vector<MemoryNeed> of_stage(stages);
  for (uint32_t part = 0; part < job.plan.stages.size(); ++part) {
    const auto& layers = job.plan.stages[part];
    const auto bytes = memory.of(part, {layers.begin, layers.end}, with_steps);
    auto& need = of_stage[part % stages];
    need.variables += bytes.variables;
    need.gradients += bytes.gradients;
    need.step += bytes.step;
  }
  std::vector<MemoryNeed> needs;
  for (const auto& role : job.plan.of_kind(RoleKind::stage)) {
    needs.push_back(of_stage[role.role.index % stages]);
    needs.back().role = role.role;
  }
  return needs;
}

/// Two banks of what it keeps, if no shard does, a copy to compute with, the
/// sums of its gradients, and copies of what it pushes.
MemoryNeed need_of_member(const Job& job, const RolePlan& member,
                          bool with_step) {
  const uint64_t states = 1 + state_slots(job.options.rule.kind);
  const auto sums = sums_of_step(job.options);
  const RoleParts parts{job, member.role};
  uint64_t kept = 0;
  uint64_t shown = 0;
  for (auto id : member.slices) {
    const auto count = job.plan.slices[id].count;
    kept += job.plan.keeps(member.role) ? count : 0;
    shown += job.plan.shows(member.role, id) ? count : 0;
  }
  MemoryNeed need{member.role, 2 * states * kept * sizeof(float),
                  copies_for_shards(job.options) * shown * sizeof(float), 0};
  for (uint32_t chunk = 0; chunk < parts.chunks().size(); ++chunk) {
    const auto& part = parts.chunks()[chunk].part;
    const uint64_t flat = Layout{job.graph, part.parameters}.total;
    need.variables += flat * sizeof(float);
    need.gradients += sums * flat * sizeof(float);
    if (with_step && on_processors(job.options))
      need.step += stage_memory_bytes(parts.graph(), part,
                                      parts.options(chunk));
  }
  return need;
}

/// Of a host, which has one of what devices of a plugin keep, each in memory of
/// its own.
MemoryNeed sum_of(const std::vector<MemoryNeed>& needs) {
  MemoryNeed all{};
  for (const auto& need : needs) {
    all.variables += need.variables;
    all.gradients += need.gradients;
    all.step += need.step;
  }
  return all;
}

std::string parts_of(const MemoryNeed& need) {
  std::string out;
  const auto add = [&](const char* name, uint64_t bytes) {
    if (bytes > 0)
      out += (out.empty() ? "" : ", ") + (name + in_units(bytes));
  };
  add("variables ", need.variables);
  add("gradients ", need.gradients);
  add("a step ", need.step);
  return out;
}

constexpr const char* advice = "; give it more memory, or a smaller model, "
                               "batch or number of roles";

/// The role that needs most, by all that is known of it.
MemoryNeed largest_need(const Job& job) {
  const auto needs = memory_needs(job);
  return *std::ranges::max_element(needs, {}, &MemoryNeed::bytes);
}

/// Whether a job fits as `options` have it; nothing where there is no such job.
std::optional<bool> fits(JobOptions options) {
  options.cut.split_at.clear();
  options.resume_from.clear();
  try {
    const Job job{options};
    return largest_need(job).bytes() <= options.cut.device_memory;
  } catch (const UsageError&) {
    return {};
  } catch (const InputError&) {
    return {};
  }
}

/// As many workers as fully_sharded is tried with for a job that does not fit.
uint32_t max_workers_tried(const JobOptions& given) {
  constexpr uint32_t most = 16;
  return std::min(most, given.virtual_ranks);
}

/// Tensor members have virtual slices that others are not given of themselves.
std::string slices_of(const JobOptions& given) {
  if (!has_tensor_members(given) || given.cut.virtual_slices == 1)
    return "";
  return " --virtual-slices " + std::to_string(given.cut.virtual_slices);
}

/// The first fully sharded job that fits, as flags; empty: there is none.
std::string fitting_sharding(const JobOptions& given) {
  auto options = given;
  options.strategy = Strategy::fully_sharded;
  const bool sharded = given.strategy == Strategy::fully_sharded;
  options.chain = sharded ? given.chain : 1;
  for (auto workers = sharded ? given.workers : 2;
       workers <= max_workers_tried(given); workers *= 2)
    for (auto sharding :
         {Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
      options.workers = workers;
      options.cut.sharding = sharding;
      const auto fit = fits(options);
      if (!fit || !*fit)
        continue;
      return (sharded ? "" : std::string{" --strategy fully_sharded"})
             + " --workers " + std::to_string(workers) + " --shard "
             + to_string(sharding) + slices_of(given);
    }
  return "";
}

/// The first group of tensor members that fits, as flags; empty: there is
/// none. Who has no virtual slices gets as many as tensor has of itself.
std::string fitting_tensor(const JobOptions& given) {
  auto options = given;
  options.strategy = Strategy::tensor;
  const bool sliced = given.strategy == Strategy::tensor;
  auto& cut = options.cut;
  if (!sliced && cut.virtual_slices == 1)
    cut.virtual_slices = 4;
  for (cut.tensor = sliced ? 2 * given.cut.tensor : 2;
       cut.tensor <= cut.virtual_slices; cut.tensor *= 2) {
    const auto fit = fits(options);
    if (!fit || !*fit)
      continue;
    return (sliced ? "" : std::string{" --strategy tensor"}) + " --tensor "
           + std::to_string(cut.tensor) + " --virtual-slices "
           + std::to_string(cut.virtual_slices);
  }
  return "";
}

/// The first pipeline that fits, as flags; empty: there is none.
std::string fitting_pipeline(const JobOptions& given) {
  auto options = given;
  options.strategy = Strategy::pipeline;
  const bool staged = given.strategy == Strategy::pipeline;
  const bool again = given.schedule.recompute != "none";
  const auto most = max_stages_tried(given);
  for (auto stages = staged ? given.stages : 2; stages <= most; stages *= 2)
    for (const auto* recompute : {"none", "full"}) {
      options.stages = stages;
      options.schedule.recompute = again ? "full" : recompute;
      const auto fit = fits(options);
      if (!fit || !*fit)
        continue;
      std::string flags = staged ? "" : " --strategy pipeline";
      if (!staged || stages != given.stages)
        flags += " --stages " + std::to_string(stages);
      if (options.schedule.recompute != given.schedule.recompute)
        flags += " --recompute full";
      flags += slices_of(given);
      return flags.empty() ? " the same without --split-at" : flags;
    }
  return "";
}

/// That a worker drives together, which the plan names as one.
uint64_t devices_of(const Job& job, const RolePlan& worker) {
  const auto& devices = job.options.devices;
  return std::ranges::find(devices, worker.device) == devices.end()
           ? devices.size()
           : 1;
}

/// A device's, beside its gradient, while several add theirs up.
constexpr uint64_t gradients_of_a_sum = 3;

/// Virtual ranks that a worker computes at once, with memory and a gradient for
/// each: one a thread; in lock step all of its own, also once one of the
/// workers has died.
uint64_t ranks_at_once(const Job& job, const RolePlan& worker,
                       uint64_t workers) {
  const auto& options = job.options;
  if (job.goes_in_lock_step()) {
    const auto left = std::max<uint64_t>(1, workers - 1);
    return (options.virtual_ranks + left - 1) / left;
  }
  if (!is_processor(worker)
      || options.synchronisation == Synchronisation::async) // a lease has one
    return 1;
  return std::min<uint64_t>((options.virtual_ranks + workers - 1) / workers,
                            options.threads_per_device);
}

/// Room of each worker for what norms over virtual ranks tell the others;
/// beside shards it is an array by itself.
uint64_t statistics_bytes(const Job& job, size_t workers) {
  if (!job.goes_in_lock_step())
    return 0;
  const bool beside_shards = job.plan.owner_kind == RoleKind::shard
                             && !job.plan.dense_reduced;
  const StatisticsRoom room{job, static_cast<uint32_t>(workers)};
  return std::max(room.arrays, beside_shards ? 1u : 0u) * job.layout.total
         * sizeof(float);
}

} // namespace

std::vector<MemoryNeed> memory_needs(const Job& job, bool with_steps) {
  std::vector<MemoryNeed> needs;
  const auto workers = job.plan.of_kind(RoleKind::worker);
  const bool by_parts = job.goes_by_parts();
  const bool steps = with_steps && !workers.empty() && !by_parts;
  const auto of_rank = steps ? step_bytes(job.worker_graph, job.max_rows()) : 0;
  const auto of_norms = steps ? statistics_bytes(job, workers.size()) : 0;
  const auto of_parts = by_parts ? sharded_bytes(job.options, job.graph,
                                                 job.max_rows(), with_steps)
                                 : ShardedBytes{};
  for (const auto& role : workers) {
    needs.push_back(job.plan.paired ? need_of_pair(job, role.role, of_parts)
                                    : need_of_worker(job, role.role));
    if (by_parts)
      continue;
    const auto at_once = ranks_at_once(job, role, workers.size());
    needs.back().devices = devices_of(job, role);
    const auto more = at_once - 1
                      + (needs.back().devices > 1 ? gradients_of_a_sum : 0);
    needs.back().gradients += more * job.layout.total * sizeof(float);
    if (is_processor(role))
      needs.back().step = of_rank * at_once + of_norms;
  }
  if (!job.plan.paired)
    for (const auto& role : job.plan.of_kind(RoleKind::shard))
      needs.push_back(need_of_shard(job, role.role));
  if (job.plan.computing() == RoleKind::stage)
    for (const auto& need : needs_of_stages(job, with_steps))
      needs.push_back(need);
  for (const auto& role : job.plan.of_kind(RoleKind::tensor))
    needs.push_back(need_of_member(job, role, with_steps));
  return needs;
}

std::string in_words(const MemoryNeed& need) {
  if (need.bytes() == 0)
    return "needs next to nothing";
  return "needs about " + in_units(need.bytes()) + " (" + parts_of(need) + ')'
         + (need.devices > 1
              ? ", on each of " + std::to_string(need.devices) + " devices"
              : "");
}

std::string to_string(const MemoryNeed& need) {
  return to_string(need.role) + ' ' + in_words(need);
}

std::string misfit(const Job& job, const MemoryLimits& limits) {
  // Variables alone are known at once, and are most of it where it matters.
  auto needs = memory_needs(job, false);
  const auto close = [&](uint64_t bytes, uint64_t limit) {
    return limit > 0 && bytes > limit / 64;
  };
  auto all = sum_of(needs);
  if (!close(all.bytes(), limits.together)
      && !close(all.bytes(), limits.process))
    return "";
  needs = memory_needs(job);
  all = sum_of(needs);
  if (limits.together > 0 && all.bytes() > limits.together)
    return "this run needs about " + in_units(all.bytes()) + " of memory ("
           + parts_of(all) + "), and " + limits.whose + " has "
           + in_units(limits.together) + advice;
  if (!job.plan.processes)
    needs = {all};
  for (const auto& need : needs)
    if (limits.process > 0 && need.bytes() > limits.process)
      return (job.plan.processes
                ? to_string(need)
                : "this run needs about " + in_units(need.bytes()))
             + " of memory, and ulimit -v allows a process "
             + in_units(limits.process) + advice;
  return "";
}

bool keeps_to_limit(const Job& job) {
  const auto limit = job.options.cut.device_memory;
  return limit == 0 || largest_need(job).bytes() <= limit;
}

std::string device_misfit(const Job& job) {
  if (keeps_to_limit(job))
    return "";
  const auto limit = job.options.cut.device_memory;
  const auto need = largest_need(job);
  const auto line = "--device-memory " + in_units(limit) + ": "
                    + to_string(need);
  auto options = job.options;
  if (job.goes_in_lock_step()) // which `auto` comes to
    options.schedule.order = "gpipe";
  // More of the same is proposed alone, others where it does not help.
  const bool staged = options.strategy == Strategy::pipeline;
  const bool sharded = options.strategy == Strategy::fully_sharded;
  auto fitting = staged    ? fitting_pipeline(options)
                 : sharded ? fitting_sharding(options)
                           : std::string{};
  if (fitting.empty())
    for (const auto& flags :
         {staged ? std::string{} : fitting_pipeline(options),
          sharded ? std::string{} : fitting_sharding(options),
          fitting_tensor(options)})
      if (!flags.empty())
        fitting += (fitting.empty() ? "" : ", or") + flags;
  if (!fitting.empty())
    return line + "; this fits:" + fitting;
  return line + "; no pipeline of up to "
         + std::to_string(max_stages_tried(options))
         + " stages fits, either, no fully_sharded of up to "
         + std::to_string(max_workers_tried(options))
         + " workers (the virtual ranks, at most 16) and no tensor members: "
           "use a smaller model or batch, or raise it";
}

} // namespace troupe
