#include "actors/job/memory_need.hpp"

#include "actors/job/stage_layers.hpp"
#include "actors/job/tensor_layers.hpp"
#include "kernels/base/control_group.hpp"
#include "kernels/engine/listing.hpp"
#include "kernels/graph/stages.hpp"

#include <algorithm>
#include <bit>

namespace troupe {
namespace {

/// Two by turns, where others read one while the next is written.
uint64_t banks_of(const Plan& plan) {
  return plan.of_kind(RoleKind::worker).size() > 1 ? 2 : 1;
}

/// Replicas of one process have their variables together.
bool shares_variables(const Job& job) {
  const auto strategy = job.options.strategy;
  return banks_of(job.plan) > 1
         && (strategy == Strategy::central_storage
             || (strategy == Strategy::mirrored
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

MemoryNeed need_of_shard(const Job& job, RoleId role) {
  const uint64_t slots = state_slots(job.options.rule.kind);
  MemoryNeed need{role, 0, 0, 0};
  for (const auto& slice : job.plan.slices) {
    const auto replicas = job.plan.on_shards(slice.id)
                            ? job.plan.replicas(slice.id)
                            : std::vector<uint32_t>{};
    if (std::ranges::find(replicas, role.index) != replicas.end())
      need.variables += 2 * (1 + slots) * slice.count * sizeof(float);
  }
  return need;
}

/// Two banks of what it keeps, a copy to compute with, a sum that grows by a
/// leaf for each level of the tree.
MemoryNeed need_of_stage(const Job& job, RoleId role, bool with_step) {
  auto need = need_of_shard(job, role);
  for (auto i = role.index; i < job.plan.stages.size(); i += job.plan.owners) {
    const auto& layers = job.plan.stages[i];
    const auto part = part_of(job.graph, {layers.begin, layers.end});
    const Layout layout{job.graph, part.parameters};
    const auto flat = layout.total * sizeof(float);
    need.variables += flat;
    need.gradients += (1 + std::bit_width(job.options.virtual_ranks)) * flat;
    if (with_step)
      need.step += stage_memory_bytes(
        job.graph, part,
        stage_options(job.options, layers, i, job.max_rows(), job.precision()));
  }
  return need;
}

/// The same of a tensor member's slices.
MemoryNeed need_of_member(const Job& job, const RolePlan& member,
                          bool with_step) {
  const uint64_t slots = state_slots(job.options.rule.kind);
  MemoryNeed need{member.role, 0, 0, 0};
  for (auto id : member.slices)
    need.variables += (2 * (1 + slots) + 1) * job.plan.slices[id].count
                      * sizeof(float);
  const auto part = tensor_part_of(job.graph,
                                   job.plan.tensor.at(member.role.index));
  const Layout layout{job.graph, part.parameters};
  need.gradients = (1 + std::bit_width(job.options.virtual_ranks))
                   * layout.total * sizeof(float);
  const auto ops = static_cast<uint32_t>(part.graph.ops.size());
  StageOptions one;
  one.max_rows = job.max_rows();
  one.precision = job.precision();
  if (with_step)
    need.step = stage_memory_bytes(part.graph, part_of(part.graph, {0, ops}),
                                   one);
  return need;
}

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

} // namespace

std::vector<MemoryNeed> memory_needs(const Job& job, bool with_steps) {
  std::vector<MemoryNeed> needs;
  const auto workers = job.plan.of_kind(RoleKind::worker);
  const auto step = with_steps && !workers.empty()
                      ? step_bytes(job.worker_graph, job.max_rows())
                      : uint64_t{0};
  for (const auto& role : workers) {
    needs.push_back(need_of_worker(job, role.role));
    if (role.device.starts_with("cpu"))
      needs.back().step = step;
  }
  for (const auto& role : job.plan.of_kind(RoleKind::shard))
    needs.push_back(need_of_shard(job, role.role));
  for (const auto& role : job.plan.of_kind(RoleKind::stage))
    needs.push_back(need_of_stage(job, role.role, with_steps));
  for (const auto& role : job.plan.of_kind(RoleKind::tensor))
    needs.push_back(need_of_member(job, role, with_steps));
  return needs;
}

std::string in_words(const MemoryNeed& need) {
  return "needs about " + in_units(need.bytes()) + " (" + parts_of(need) + ')';
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

} // namespace troupe
