#include "strategies/plan.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

namespace troupe {

namespace {

constexpr std::array<std::pair<Strategy, std::string_view>, 8> names{{
  {Strategy::one_device, "one_device"},
  {Strategy::mirrored, "mirrored"},
  {Strategy::multi_worker_mirrored, "multi_worker_mirrored"},
  {Strategy::central_storage, "central_storage"},
  {Strategy::parameter_server, "parameter_server"},
  {Strategy::pipeline, "pipeline"},
  {Strategy::tensor, "tensor"},
  {Strategy::hybrid, "hybrid"},
}};

bool available(Strategy strategy) {
  return strategy == Strategy::one_device || strategy == Strategy::mirrored
         || strategy == Strategy::parameter_server;
}

std::string counted(uint64_t n, const std::string& what) {
  return std::to_string(n) + ' ' + what + (n == 1 ? "" : "s");
}

/// Says what is wrong with the options; nothing where they can be planned.
std::optional<std::string> mistake(const PlanOptions& x) {
  auto served = x.strategy == Strategy::parameter_server;
  if (!available(x.strategy))
    return "strategy " + to_string(x.strategy) + " is not available yet";
  if (x.synchronisation == Synchronisation::async && !served)
    return "strategy " + to_string(x.strategy)
           + " is synchronous: drop --async or add"
             " --strategy parameter_server";
  if (served && x.workers == 0)
    return "no worker: add --workers 1 or more";
  if (served && x.shards == 0)
    return "no parameter-server shard: add --ps 1 or more";
  if (x.devices.empty())
    return "no device: add --devices cpu:1";
  if (x.virtual_ranks == 0)
    return "no virtual rank: add --virtual-ranks 1 or more";
  if (x.global_batch == 0)
    return "an empty batch: add --global-batch 1 or more";
  if (x.strategy == Strategy::one_device && x.devices.size() > 1)
    return "strategy one_device uses one device, not "
           + std::to_string(x.devices.size())
           + ": name one with --devices, or add --strategy mirrored";
  auto members = served ? uint64_t{x.workers} : uint64_t{x.devices.size()};
  if (members > x.virtual_ranks)
    return counted(members, served ? "worker" : "device") + " need at least "
           + std::to_string(members) + " virtual ranks: add --virtual-ranks "
           + std::to_string(members);
  if (x.virtual_ranks > x.global_batch)
    return counted(x.virtual_ranks, "virtual rank")
           + " need a global batch of at least "
           + std::to_string(x.virtual_ranks) + ": add --global-batch "
           + std::to_string(x.virtual_ranks);
  return std::nullopt;
}

std::string reduction_of(const PlanOptions& x, uint32_t workers) {
  if (x.synchronisation == Synchronisation::async)
    return "none: a shard applies each push on arrival";
  if (x.strategy == Strategy::parameter_server)
    return "at the shards, fixed tree";
  return workers == 1 ? "local, fixed tree" : "direct exchange, fixed tree";
}

} // namespace

std::vector<RolePlan> Plan::of_kind(RoleKind kind) const {
  std::vector<RolePlan> out;
  std::ranges::copy_if(roles, std::back_inserter(out),
                       [kind](const RolePlan& x) {
                         return x.role.kind == kind;
                       });
  return out;
}

bool make_plan(const PlanOptions& options,
               const std::vector<Variable>& variables, Plan& plan,
               PlanError& error) {
  if (auto message = mistake(options)) {
    error.message = std::move(*message);
    return false;
  }
  auto served = options.strategy == Strategy::parameter_server;
  auto workers = served ? options.workers
                        : static_cast<uint32_t>(options.devices.size());
  auto owners = served ? options.shards : workers;
  Plan out;
  out.strategy = options.strategy;
  out.synchronisation = options.synchronisation;
  out.processes = options.processes;
  out.virtual_ranks = options.virtual_ranks;
  out.global_batch = options.global_batch;
  out.variables = variables;
  out.slices = cut(variables, options.partitioner);
  out.owner = assign(out.slices, owners);
  out.owner_kind = served ? RoleKind::shard : RoleKind::worker;
  out.reduction = reduction_of(options, workers);
  std::vector<std::vector<uint32_t>> owned(owners);
  for (const auto& slice : out.slices)
    owned[out.owner[slice.id]].push_back(slice.id);
  const auto& devices = options.devices;
  out.roles.push_back({{RoleKind::coordinator, 0}, "cpu", {}, {}});
  out.roles.push_back({{RoleKind::evaluator, 0}, devices.front(), {}, {}});
  for (uint32_t i = 0; i < workers; ++i)
    out.roles.push_back({{RoleKind::worker, i},
                         devices[i % devices.size()],
                         ranks_of_worker(i, workers, options.virtual_ranks),
                         served ? std::vector<uint32_t>{} : owned[i]});
  if (served)
    for (uint32_t i = 0; i < owners; ++i)
      out.roles.push_back({{RoleKind::shard, i}, "cpu", {}, owned[i]});
  plan = std::move(out);
  return true;
}

std::string to_string(Strategy strategy) {
  for (auto [value, name] : names)
    if (value == strategy)
      return std::string{name};
  return "unknown";
}

bool parse(const std::string& name, Strategy& strategy) {
  for (auto [value, known] : names) {
    if (known != name)
      continue;
    strategy = value;
    return true;
  }
  return false;
}

} // namespace troupe
