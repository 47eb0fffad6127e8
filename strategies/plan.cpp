#include "strategies/plan.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

namespace troupe {

namespace {

constexpr std::array<std::pair<Strategy, std::string_view>, 10> strategy_names{{
  {Strategy::one_device, "one_device"},
  {Strategy::mirrored, "mirrored"},
  {Strategy::multi_worker_mirrored, "multi_worker_mirrored"},
  {Strategy::central_storage, "central_storage"},
  {Strategy::parameter_server, "parameter_server"},
  {Strategy::pipeline, "pipeline"},
  {Strategy::tensor, "tensor"},
  {Strategy::hybrid, "hybrid"},
  {Strategy::fully_sharded, "fully_sharded"},
  {Strategy::tpu, "tpu"},
}};

constexpr std::array<std::pair<Sharding, std::string_view>, 3> sharding_names{{
  {Sharding::optimizer, "optimizer"},
  {Sharding::gradients, "gradients"},
  {Sharding::parameters, "parameters"},
}};

/// Shards keep the slices of stages, or tensor members, and these push to them.
bool serves_stages(const PlanOptions& x) {
  return x.strategy == Strategy::hybrid && x.serves_stages;
}

/// Shards keep the slices, and others push to them.
bool has_shards(const PlanOptions& x) {
  return x.strategy == Strategy::parameter_server
         || x.strategy == Strategy::fully_sharded || serves_stages(x);
}

/// Slices of layers are with tensor members, of groups or of stages.
bool is_sliced(const PlanOptions& x) {
  return x.strategy == Strategy::tensor
         || (x.strategy == Strategy::hybrid && !x.tensor.empty());
}

/// Layers are on stages, of one pipeline or of several side by side.
bool is_staged(const PlanOptions& x) {
  return x.strategy == Strategy::pipeline
         || (x.strategy == Strategy::hybrid
             && (!is_sliced(x) || !x.stages.empty()));
}

/// Whether a worker drives all devices that it has, as one.
bool drives_together(const PlanOptions& x) {
  return x.strategy == Strategy::tpu
         || (x.strategy == Strategy::multi_worker_mirrored
             && x.devices.front().starts_with("pjrt:"));
}

/// Who shares the virtual ranks: devices, those of each worker, or workers with
/// shards.
uint64_t members_of(const PlanOptions& x) {
  const auto devices = uint64_t{x.devices.size()};
  if (is_staged(x) || is_sliced(x))
    return 0; // they share the ranks of their pipeline, or group
  if (has_shards(x))
    return x.workers;
  return x.strategy == Strategy::multi_worker_mirrored ? x.workers * devices
                                                       : devices;
}

uint64_t workers_of(const PlanOptions& x) {
  return drives_together(x) ? members_of(x) / x.devices.size() : members_of(x);
}

/// A worker's devices as one: pjrt:libtpu.so:0-3.
std::string devices_together(const std::vector<std::string>& devices) {
  return devices.front()
         + (devices.size() > 1 ? '-' + std::to_string(devices.size() - 1) : "");
}

/// The device that the job trains on: a processor would take longer to evaluate
/// than the epoch took to train. A plugin's is one process's.
std::string evaluator_device(const PlanOptions& x) {
  const auto& first = x.devices.front();
  return x.processes && first.starts_with("pjrt:") ? "cpu" : first;
}

/// Whether they are the first devices of one plugin, in order.
bool are_of_one_plugin(const std::vector<std::string>& devices) {
  const auto& first = devices.front();
  if (!first.starts_with("pjrt:") || !first.ends_with(":0"))
    return false;
  const auto plugin = first.substr(0, first.size() - 1);
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i] != plugin + std::to_string(i))
      return false;
  return true;
}

bool one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Whether all devices are GPUs, and none of them two virtual ones.
bool each_has_a_gpu(const std::vector<std::string>& devices) {
  return std::ranges::all_of(devices, [](const std::string& device) {
    return device.starts_with("cuda") && device.find('.') == device.npos;
  });
}

/// Says why the all-reduce or the compression cannot be had.
std::optional<std::string> mistake_of_reduction(const PlanOptions& x) {
  const auto& name = x.all_reduce;
  const bool replicas = x.strategy == Strategy::mirrored
                        || x.strategy == Strategy::multi_worker_mirrored;
  if (name != "auto" && !replicas)
    return "--all-reduce " + name + " has no effect with strategy "
           + to_string(x.strategy) + ": drop it, or add --strategy mirrored";
  const bool local = one_of(name,
                            {"hierarchical_copy", "reduction_to_one_device"});
  if (local && x.strategy != Strategy::mirrored)
    return "--all-reduce " + name
           + " is for devices of one process: use ring, halving_doubling or "
             "hierarchical, or add --strategy mirrored";
  if (name == "nccl"
      && (!each_has_a_gpu(x.devices)
          || (x.strategy == Strategy::mirrored && x.devices.size() < 2)))
    return "--all-reduce nccl needs a GPU of its own for each replica: name "
           "them with --devices cuda:0,cuda:1, or drop it";
  if (!x.any_order
      && !one_of(name, {"auto", "reduction_to_one_device", "nccl"}))
    return "--all-reduce " + name
           + " sums in an order that depends on the number of replicas: add "
             "--reduction fast, or drop it";
  if (x.compresses && !x.any_order)
    return "--compress changes bits: add --reduction fast, or drop it";
  if (x.compresses && x.strategy != Strategy::multi_worker_mirrored
      && x.strategy != Strategy::parameter_server)
    return "--compress saves bytes between processes: add --strategy "
           "multi_worker_mirrored or parameter_server, or drop it";
  return std::nullopt;
}

std::optional<std::string> mistake_of_backups(const PlanOptions& x) {
  if (x.backup_workers == 0)
    return std::nullopt;
  const auto flag = "--backup-workers " + std::to_string(x.backup_workers);
  if (x.strategy != Strategy::parameter_server)
    return flag
           + " is for parameter_server: add --strategy parameter_server, "
             "or drop it";
  if (x.synchronisation == Synchronisation::async)
    return flag + " is for synchronous steps: drop --async, or drop it";
  if (!x.any_order)
    return flag + " leaves out gradients: add --reduction fast, or drop it";
  if (x.backup_workers >= x.workers)
    return flag + " leaves nobody to wait for: add --workers "
           + std::to_string(x.backup_workers + 1) + " or more";
  return std::nullopt;
}

/// Members of a group in shared memory.
constexpr uint32_t max_reducing = 256;

std::optional<std::string> mistake_of_dense(const PlanOptions& x) {
  if (!x.dense_reduced)
    return std::nullopt;
  if (x.strategy != Strategy::parameter_server)
    return "--dense all_reduced is for parameter_server, which has tables on "
           "shards: add --strategy parameter_server, or drop it";
  if (x.backup_workers > 0)
    return std::string{"--dense all_reduced waits for every worker: drop "
                       "--backup-workers, or use --dense shards"};
  if (x.workers > max_reducing)
    return "--dense all_reduced sums between at most "
           + std::to_string(max_reducing) + " workers: use --dense shards";
  if (x.compresses)
    return std::string{"--compress packs what is pushed of dense variables: "
                       "drop it, or use --dense shards"};
  return std::nullopt;
}

/// Readers serve workers that go through their samples leaf by leaf.
std::optional<std::string> mistake_of_readers(const PlanOptions& x) {
  if (x.readers == 0
      || ((x.strategy == Strategy::parameter_server
           || x.strategy == Strategy::multi_worker_mirrored)
          && !x.dense_reduced))
    return std::nullopt;
  return "--readers " + std::to_string(x.readers)
         + " serve the workers of parameter_server and multi_worker_mirrored "
           "alone as yet, not those of "
         + (x.dense_reduced ? "--dense all_reduced"
                            : "strategy " + to_string(x.strategy))
         + ": drop it, or use one of the two";
}

std::string counted(uint64_t n, const std::string& what) {
  return std::to_string(n) + ' ' + what + (n == 1 ? "" : "s");
}

bool names_a_plugin(const std::vector<std::string>& devices) {
  return std::ranges::any_of(devices, [](const std::string& device) {
    return device.starts_with("pjrt");
  });
}

std::optional<std::string> mistake_of_stages(const PlanOptions& x) {
  const bool staged = is_staged(x);
  if (!staged && !is_sliced(x))
    return std::nullopt;
  if (x.data > x.virtual_ranks)
    return "--mesh data=" + std::to_string(x.data) + ": "
           + counted(x.data, staged ? "pipeline" : "group") + " need at least "
           + std::to_string(x.data) + " virtual ranks: add --virtual-ranks "
           + std::to_string(x.data);
  if (names_a_plugin(x.devices))
    return "strategy " + to_string(x.strategy) + " has its "
           + (is_sliced(x) ? "members" : "stages")
           + " on CPUs and GPUs only as yet: name them with --devices cpu:2 or "
             "cuda:0";
  return std::nullopt;
}

std::optional<std::string> mistake_of_sharding(const PlanOptions& x) {
  if (x.strategy != Strategy::fully_sharded)
    return std::nullopt;
  if (x.any_order)
    return std::string{"--reduction fast has no effect with strategy "
                       "fully_sharded, whose owners sum along the fixed tree: "
                       "drop it"};
  if (x.chain > x.workers)
    return "--chain " + std::to_string(x.chain) + " keeps as many copies of "
           + "what each of " + counted(x.workers, "worker")
           + " has: add --workers " + std::to_string(x.chain)
           + ", or use a smaller --chain";
  if (x.sharding != Sharding::optimizer && names_a_plugin(x.devices))
    return "--shard " + to_string(x.sharding)
           + " computes on CPUs and GPUs only as yet: name them with --devices "
             "cpu:1 or cuda:0, or add --shard optimizer";
  return std::nullopt;
}

/// Says what is wrong with the options; nothing where they can be planned.
std::optional<std::string> mistake(const PlanOptions& x) {
  const bool served = x.strategy == Strategy::parameter_server;
  if (x.synchronisation == Synchronisation::async && !served)
    return "strategy " + to_string(x.strategy)
           + " is synchronous: drop --async or add"
             " --strategy parameter_server";
  if ((has_shards(x) || x.strategy == Strategy::multi_worker_mirrored)
      && x.workers == 0)
    return "no worker: add --workers 1 or more";
  if ((served || serves_stages(x)) && x.shards == 0)
    return "no parameter-server shard: add --ps 1 or more";
  if (x.chain == 0)
    return "no replica of a shard: add --chain 1 or more";
  if (x.chain > 1 && !has_shards(x))
    return "--chain " + std::to_string(x.chain)
           + " replicates shards, which strategy " + to_string(x.strategy)
           + " does not have: drop it, or add --strategy parameter_server";
  if (x.devices.empty())
    return "no device: add --devices cpu:1";
  if (x.virtual_ranks == 0)
    return "no virtual rank: add --virtual-ranks 1 or more";
  if (x.global_batch == 0)
    return "an empty batch: add --global-batch 1 or more";
  if (x.strategy == Strategy::tpu && !x.devices.front().starts_with("pjrt:"))
    return "strategy tpu computes on devices of a PJRT plugin: name them with "
           "--devices pjrt:/path/libtpu.so, or add --strategy mirrored";
  if (drives_together(x) && !are_of_one_plugin(x.devices))
    return "strategy " + to_string(x.strategy)
           + " runs programs on all devices of a worker together, which are "
             "one plugin's: name them with --devices pjrt:/path/libtpu.so:"
           + std::to_string(x.devices.size()) + ", or add --strategy mirrored";
  if (x.strategy == Strategy::one_device && x.devices.size() > 1)
    return "strategy one_device uses one device, not "
           + std::to_string(x.devices.size())
           + ": name one with --devices, or add --strategy mirrored";
  const auto members = members_of(x);
  const auto* noun = has_shards(x)                                   ? "worker"
                     : x.strategy == Strategy::multi_worker_mirrored ? "replica"
                                                                     : "device";
  if (members > x.virtual_ranks)
    return counted(members, noun) + " need at least " + std::to_string(members)
           + " virtual ranks: add --virtual-ranks " + std::to_string(members);
  if (x.virtual_ranks > x.global_batch)
    return counted(x.virtual_ranks, "virtual rank")
           + " need a global batch of at least "
           + std::to_string(x.virtual_ranks) + ": add --global-batch "
           + std::to_string(x.virtual_ranks);
  if (auto mistake = mistake_of_dense(x))
    return mistake;
  if (auto mistake = mistake_of_readers(x))
    return mistake;
  if (auto mistake = mistake_of_stages(x))
    return mistake;
  if (auto mistake = mistake_of_sharding(x))
    return mistake;
  if (auto mistake = mistake_of_backups(x))
    return mistake;
  return mistake_of_reduction(x);
}

std::string reduction_of(const PlanOptions& x, uint32_t workers) {
  if (x.synchronisation == Synchronisation::async)
    return std::string{"none: a shard applies each push on arrival"}
           + (x.dense_reduced ? "; dense variables by direct exchange, fixed "
                                "tree"
                              : "");
  const auto schedule = is_staged(x) ? "; schedule " + x.schedule
                                     : std::string{};
  const auto of_slices = is_sliced(x)
                           ? std::string{"; of slices by direct exchange, "
                                         "fixed tree"}
                           : std::string{};
  if (x.strategy == Strategy::parameter_server || serves_stages(x))
    return std::string{"at the shards, "}
           + (x.dense_reduced ? "dense variables by direct exchange, " : "")
           + "fixed tree" + of_slices + schedule;
  const auto over = [&](const char* what) {
    return x.data > 1
             ? "over " + counted(x.data, what) + " by direct exchange, "
             : std::string{};
  };
  if (is_staged(x) && !is_sliced(x))
    return "at each stage, " + over("pipeline") + "fixed tree" + schedule;
  if (x.strategy == Strategy::fully_sharded)
    return "at the workers, fixed tree; each updates its share of the "
           "optimizer state"
           + std::string{x.sharding == Sharding::optimizer   ? ""
                         : x.sharding == Sharding::gradients ? ", gradients"
                                                             : ", gradients, "
                                                               "parameters"};
  if (is_sliced(x))
    return "at each member, " + over(is_staged(x) ? "pipeline" : "group")
           + "fixed tree" + of_slices + schedule;
  const std::string order = x.any_order ? "any order" : "fixed tree";
  if (x.strategy == Strategy::tpu && x.devices.size() > 1)
    return "on the devices, " + order;
  if (workers == 1)
    return "local, " + order;
  if (x.strategy == Strategy::central_storage)
    return "on the host, " + order;
  if (x.all_reduce != "auto")
    return x.all_reduce + ", " + order;
  return x.any_order ? order : "direct exchange, " + order;
}

/// Shards keep the parts of sparse tables, every worker the rest.
std::vector<uint32_t> owners_of_tables(const std::vector<Slice>& slices,
                                       uint32_t owners) {
  std::vector<Slice> parts;
  std::ranges::copy_if(slices, std::back_inserter(parts), &Slice::sparse);
  const auto of_parts = assign(parts, owners);
  std::vector<uint32_t> out(slices.size(), Plan::every_worker);
  for (size_t i = 0; i < parts.size(); ++i)
    out[parts[i].id] = of_parts[i];
  return out;
}

/// All that a shard of a ring is a replica of.
std::vector<uint32_t> slices_with(const Plan& plan, uint32_t shard) {
  std::vector<uint32_t> out;
  for (const auto& slice : plan.slices)
    if (std::ranges::count(plan.replicas(slice.id), shard) > 0)
      out.push_back(slice.id);
  return out;
}

/// A stage keeps, or is given, what its layers are the first to use.
std::vector<uint32_t> owners_of_layers(const std::vector<Slice>& slices,
                                       const std::vector<StageLayers>& parts,
                                       uint32_t stages) {
  std::vector<uint32_t> out(slices.size(), 0);
  for (uint32_t part = 0; part < parts.size(); ++part)
    for (const auto& slice : slices)
      if (std::ranges::find(parts[part].variables, slice.variable)
          != parts[part].variables.end())
        out[slice.id] = part % stages;
  return out;
}

/// A tensor member shows what no member before it has.
std::vector<uint32_t> owners_of_shares(const std::vector<Slice>& slices,
                                       const std::vector<TensorShare>& shares) {
  std::vector<uint32_t> out(slices.size(), 0);
  for (uint32_t member = 0; member < shares.size(); ++member)
    for (const auto& slice : slices)
      if (std::ranges::binary_search(shares[member].shows, slice.variable))
        out[slice.id] = member;
  return out;
}

std::vector<uint32_t> slices_of(const std::vector<Slice>& slices,
                                const std::vector<uint32_t>& variables) {
  std::vector<uint32_t> out;
  for (const auto& slice : slices)
    if (std::ranges::binary_search(variables, slice.variable))
      out.push_back(slice.id);
  return out;
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

const RolePlan& Plan::role(RoleId role) const {
  auto found = std::ranges::find(roles, role, &RolePlan::role);
  strategies::require(found != roles.end(), "a role outside the plan");
  return *found;
}

const TensorShare& Plan::share(RoleId member) const {
  strategies::require(member.kind == RoleKind::tensor && !tensor.empty(),
                      "a role without a share of slices");
  return tensor[member.index % tensor.size()];
}

bool Plan::shows(RoleId role, uint32_t slice) const {
  strategies::require(slice < slices.size(), "a slice outside the plan");
  return tensor.empty()
         || std::ranges::binary_search(share(role).shows,
                                       slices[slice].variable);
}

bool Plan::on_shards(uint32_t slice) const {
  strategies::require(slice < owner.size(), "a slice outside the plan");
  return keeps_slices(owner_kind) && owner[slice] != every_worker;
}

std::vector<uint32_t> Plan::replicas(uint32_t slice) const {
  strategies::require(slice < owner.size(), "a slice outside the plan");
  std::vector<uint32_t> out;
  if (owner[slice] == every_worker)
    return out;
  for (uint32_t k = 0; k < chain; ++k)
    out.push_back(paired ? (owner[slice] + k) % owners
                         : owner[slice] + k * owners);
  return out;
}

bool make_plan(const PlanOptions& options,
               const std::vector<Variable>& variables, Plan& plan,
               PlanError& error) {
  if (auto message = mistake(options)) {
    error.message = std::move(*message);
    return false;
  }
  const bool served = has_shards(options);
  const bool paired = options.strategy == Strategy::fully_sharded;
  const auto workers = static_cast<uint32_t>(workers_of(options));
  const bool staged = is_staged(options);
  const bool sliced = is_sliced(options);
  const auto members = static_cast<uint32_t>(options.tensor.size());
  strategies::require(!sliced || members > 0, "a group without members");
  const auto stages = staged ? static_cast<uint32_t>(options.stages.size())
                                 / std::max(1u, options.chunks)
                             : 1;
  strategies::require(stages > 0 && members % stages == 0,
                      "a pipeline without stages, or with uneven ones");
  const auto owners = paired   ? workers
                      : served ? options.shards
                      : sliced ? members
                      : staged ? stages
                               : workers;
  Plan out;
  out.strategy = options.strategy;
  out.synchronisation = options.synchronisation;
  out.processes = options.processes;
  out.virtual_ranks = options.virtual_ranks;
  out.global_batch = options.global_batch;
  out.variables = variables;
  out.slices = cut(variables, options.partitioner);
  out.dense_reduced = options.dense_reduced;
  out.paired = paired;
  out.owner = options.dense_reduced ? owners_of_tables(out.slices, owners)
              : served              ? assign(out.slices, owners)
              : sliced ? owners_of_shares(out.slices, options.tensor)
              : staged ? owners_of_layers(out.slices, options.stages, stages)
                       : assign(out.slices, owners);
  out.owners = owners;
  out.group = sliced ? members / stages : 1;
  out.chain = (staged || sliced) && !served ? options.data : options.chain;
  out.owner_kind = served   ? RoleKind::shard
                   : sliced ? RoleKind::tensor
                   : staged ? RoleKind::stage
                            : RoleKind::worker;
  if (staged)
    out.stages = options.stages;
  if (serves_stages(options))
    out.served = Mesh{options.data, stages, out.group};
  if (sliced)
    out.tensor = options.tensor;
  out.reduction = reduction_of(options, workers);
  std::vector<std::vector<uint32_t>> owned(owners);
  std::vector<uint32_t> reduced;
  for (const auto& slice : out.slices)
    (out.owner[slice.id] == Plan::every_worker ? reduced
                                               : owned[out.owner[slice.id]])
      .push_back(slice.id);
  std::vector<std::vector<uint32_t>> of_stage(stages);
  if (staged) {
    const auto users = owners_of_layers(out.slices, options.stages, stages);
    for (const auto& slice : out.slices)
      of_stage[users[slice.id]].push_back(slice.id);
  }
  const auto& devices = options.devices;
  out.roles.push_back({{RoleKind::coordinator, 0}, "cpu", {}, {}});
  out.roles.push_back(
    {{RoleKind::evaluator, 0}, evaluator_device(options), {}, {}});
  for (uint32_t i = 0; i < workers; ++i)
    out.roles.push_back({{RoleKind::worker, i},
                         drives_together(options) ? devices_together(devices)
                                                  : devices[i % devices.size()],
                         ranks_of_worker(i, workers, options.virtual_ranks),
                         served ? reduced : owned[i]});
  for (uint32_t i = 0; served && i < owners * (paired ? 1 : options.chain); ++i)
    out.roles.push_back({{RoleKind::shard, i},
                         "cpu",
                         {},
                         paired ? slices_with(out, i) : owned[i % owners]});
  for (uint32_t i = 0; staged && !sliced && i < stages * options.data; ++i)
    out.roles.push_back(
      {{RoleKind::stage, i},
       devices[i % devices.size()],
       ranks_of_worker(i / stages, options.data, options.virtual_ranks),
       of_stage[i % stages]});
  for (uint32_t i = 0; sliced && i < members * options.data; ++i)
    out.roles.push_back(
      {{RoleKind::tensor, i},
       devices[i % devices.size()],
       ranks_of_worker(i / members, options.data, options.virtual_ranks),
       slices_of(out.slices, options.tensor[i % members].variables)});
  for (uint32_t i = 0; i < options.readers; ++i)
    out.roles.push_back({{RoleKind::reader, i}, "cpu", {}, {}});
  plan = std::move(out);
  return true;
}

std::string to_string(Sharding sharding) {
  for (auto [value, name] : sharding_names)
    if (value == sharding)
      return std::string{name};
  return "unknown";
}

bool parse(const std::string& name, Sharding& sharding) {
  for (auto [value, known] : sharding_names) {
    if (known != name)
      continue;
    sharding = value;
    return true;
  }
  return false;
}

std::string to_string(Strategy strategy) {
  for (auto [value, name] : strategy_names)
    if (value == strategy)
      return std::string{name};
  return "unknown";
}

bool parse(const std::string& name, Strategy& strategy) {
  for (auto [value, known] : strategy_names) {
    if (known != name)
      continue;
    strategy = value;
    return true;
  }
  return false;
}

} // namespace troupe
