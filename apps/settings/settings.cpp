#include "apps/settings/settings.hpp"

#include "actors/certificates/metrics_token.hpp"
#include "actors/job/stage_mesh.hpp"
#include "apps/settings/checks.hpp"
#include "apps/settings/command_line.hpp"
#include "apps/settings/config_file.hpp"
#include "apps/settings/defaults.hpp"
#include "apps/settings/devices.hpp"
#include "apps/settings/flags.hpp"
#include "apps/settings/tf_config.hpp"
#include "apps/terminal/numbers.hpp"
#include "kernels/base/control_group.hpp"
#include "kernels/base/error.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/files/shown_text.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace troupe {

namespace {

/// A value on its way to its field.
struct Given {
  std::string text;
  std::string origin; ///< "--lr abc", "job.toml:3: lr = abc"
};
using Layer = std::map<std::string, Given>;

/// Puts a layer over those below: its values win, and so does its member of an
/// exclusive pair.
/// Errors: UsageError when the layer has both members.
void put_over(Layer& below, const Layer& layer) {
  for (const auto& [left, right] : exclusive_flags()) {
    auto l = layer.find(left);
    auto r = layer.find(right);
    if (l != layer.end() && r != layer.end())
      throw UsageError(l->second.origin + " and " + r->second.origin
                       + " exclude each other; keep one");
    if (l != layer.end())
      below.erase(right);
    if (r != layer.end())
      below.erase(left);
  }
  for (const auto& [name, given] : layer)
    below[name] = given;
}

Layer layer_of_file(const CommandLine& line) {
  Layer layer;
  auto path = line.flags.find("config");
  if (path == line.flags.end())
    return layer;
  for (const auto& [name, value] : read_config(path->second))
    layer[name] = {value.text, value.where + ": " + name + " = " + value.text};
  return layer;
}

Layer layer_of_flags(const CommandLine& line) {
  Layer layer;
  for (const auto& [name, text] : line.flags) {
    auto toggle = text == "true";
    layer[name] = {text, "--" + name + (toggle ? "" : " " + text)};
  }
  return layer;
}

/// `train` with a task of TF_CONFIG is what that task is; worker 0 of equals
/// starts the coordinator beside itself. So does `role` without a name.
void take_task(const TfConfig& config, Settings& settings, const Layer& flags) {
  const bool asks = settings.command == "train"
                    || (settings.command == "role" && !settings.role);
  const auto coordinator = config.coordinator();
  if (!asks || !config.task || coordinator.empty())
    return;
  if (config.chief.empty() && !config.shards.empty())
    throw UsageError("TF_CONFIG: cluster has ps and no chief, so nobody is the "
                     "coordinator: add \"chief\": [\"host:port\"]");
  const bool trains = settings.command == "train";
  settings.role = config.task;
  settings.leads = config.chief.empty()
                   && *config.task == RoleId{RoleKind::worker, 0};
  settings.command = settings.leads ? "train" : "role";
  settings.job.strategy = config.shards.empty()
                            ? Strategy::multi_worker_mirrored
                            : Strategy::parameter_server;
  if (flags.contains("standby"))
    throw UsageError("--standby starts a second coordinator on this host, and "
                     "TF_CONFIG names those of several: see --voters");
  for (const auto* needless : {"in-process", "log-dir"})
    if (!settings.leads && flags.contains(needless))
      throw UsageError("--" + std::string{needless}
                       + " is for a host that has all roles, and TF_CONFIG "
                         "makes this one "
                       + to_string(*config.task) + ": leave it out");
  if (trains && !flags.contains("certificates"))
    throw UsageError("TF_CONFIG: this is " + to_string(*config.task) + " of "
                     + "several hosts: --certificates DIR is missing, the same "
                       "on each");
}

/// The cluster's counts, and for a role who it is and where it is reached.
Layer layer_of_cluster(const TfConfig& config, Settings& settings) {
  Layer layer;
  auto put = [&](const char* name, const std::string& text) {
    layer[name] = {text, "TF_CONFIG: " + std::string{name} + " = " + text};
  };
  if (!config.workers.empty())
    put("workers", std::to_string(config.workers.size()));
  if (!config.shards.empty())
    put("ps", std::to_string(config.shards.size()));
  if (settings.leads)
    put("listen", config.coordinator());
  if (settings.command != "role")
    return layer;
  if (!settings.role)
    settings.role = config.task;
  if (const auto where = config.coordinator(); !where.empty())
    put("coordinator", where);
  if (!settings.role)
    return layer;
  auto kind = settings.role->kind;
  auto own = config.address_of(*settings.role);
  auto listens = kind == RoleKind::coordinator || keeps_slices(kind);
  if (listens && !own.empty())
    put("listen", own);
  return layer;
}

void store(const Layer& layer, Settings& settings) {
  auto flags = all_flags();
  const auto bit = bit_of(settings.command);
  const auto is_own = [&](const Flag& flag) { return (flag.commands & bit); };
  for (const auto& flag : flags) {
    auto found = layer.find(flag.name);
    if (found == layer.end())
      continue;
    const auto gives_way = [&](const Flag& other) {
      return other.name == flag.name && is_own(other) && !is_own(flag);
    };
    if (std::any_of(flags.begin(), flags.end(), gives_way))
      continue;
    const auto& given = found->second;
    try {
      if (given.text.empty())
        throw UsageError("expected a value");
      flag.set(settings, given.text);
    } catch (const UsageError& mistake) {
      throw UsageError(given.origin + ": " + mistake.what());
    }
    settings.given.insert(flag.name);
  }
}

/// Defaults that depend on other values.
void settle(Settings& settings, const Surroundings& surroundings) {
  auto& job = settings.job;
  auto given = [&](const char* name) { return settings.given.count(name) > 0; };
  if (!given("processes") && !given("in-process"))
    job.processes = settings.command == "role"
                    || job.strategy == Strategy::parameter_server
                    || job.strategy == Strategy::multi_worker_mirrored
                    || job.strategy == Strategy::fully_sharded;
  if (job.reduction == "fast" && job.strategy == Strategy::one_device
      && !given("virtual-ranks"))
    job.virtual_ranks = 1;
  if (has_tensor_members(job) && !given("virtual-slices"))
    job.cut.virtual_slices = 4;
  if (given("steps") && !given("epochs"))
    job.epochs = 0;
  if (!settings.tensorboard.empty() && !given("histogram-every"))
    job.histogram_every = 100;
  if (settings.command == "ctl move-slices")
    settings.change += ' ' + settings.from + ' ' + settings.to + ' '
                       + settings.slices;
  job.rule.kind = parse_optimizer(job.optimizer);
  resolve_devices(settings, surroundings);
}

} // namespace

std::string metrics_token_of(const Settings& settings) {
  return settings.metrics_token.empty()
           ? settings.certificates + '/' + metrics_token_file
           : settings.metrics_token;
}

CertificateSource certificate_source(const Settings& settings) {
  CertificateSource out{settings.certificates};
  out.valid_seconds = static_cast<int64_t>(settings.certificate_seconds);
  if (const auto* offset = std::getenv("TROUPE_CLOCK_OFFSET_S"))
    out.clock_offset_s = std::strtoll(offset, nullptr, 10); // of a test
  return out;
}

Surroundings surroundings_of_process() {
  Surroundings out;
  if (const auto* text = std::getenv("TF_CONFIG"))
    out.tf_config = text;
  for (auto [name, words] :
       {std::pair{"SLURM_JOB_NODELIST", &out.slurm.nodes},
        std::pair{"SLURM_TASKS_PER_NODE", &out.slurm.tasks},
        std::pair{"SLURM_PROCID", &out.slurm.process}})
    if (const auto* text = std::getenv(name))
      *words = text;
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0)
    out.cores = processors_within(static_cast<uint32_t>(CPU_COUNT(&cores)),
                                  read_control_group());
  out.cuda_devices = cuda_device_count;
  out.why_no_cuda = why_no_cuda;
  return out;
}

namespace {

/// Such a name would be written elsewhere under another one: journals, frames
/// and summaries are UTF-8.
void refuse_foreign_bytes(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (is_utf8(arguments[i]))
      continue;
    const bool is_value = i > 0 && arguments[i - 1].starts_with("--")
                          && arguments[i - 1] != "--"
                          && !arguments[i].starts_with("--");
    throw UsageError((is_value ? arguments[i - 1] + ' ' : std::string{})
                     + shown_text(arguments[i])
                     + ": has bytes that are not UTF-8 (each is shown as ?); "
                       "give the file or folder another name");
  }
}

/// Tasks of srun are alike but for their numbers.
RoleId role_of(const std::string& name, const SlurmWords& slurm, bool& paired) {
  if (name == "coordinator" || name.find(':') != std::string::npos
      || slurm.process.empty())
    return parse_process(name, paired);
  try {
    return parse_process(name + ':' + slurm.process, paired);
  } catch (const UsageError& mistake) {
    throw UsageError(std::string{"SLURM_PROCID: "} + mistake.what());
  }
}

} // namespace

Settings parse_settings(const std::vector<std::string>& arguments,
                        const Surroundings& surroundings) {
  refuse_foreign_bytes(arguments);
  auto line = parse_command_line(arguments);
  auto settings = defaults_of(line.command);
  settings.topic = line.topic;
  settings.chaos.job = settings.launch.job = line.job;
  if (bit_of(line.command) == 0)
    return settings;
  if (!line.role.empty())
    settings.role = role_of(line.role, surroundings.slurm, settings.paired);
  Layer values;
  put_over(values, layer_of_file(line));
  auto cluster = (bit_of(line.command) & on_jobs) != 0
                 && !surroundings.tf_config.empty();
  if (cluster) {
    const auto config = parse_tf_config(surroundings.tf_config);
    auto known = values;
    put_over(known, layer_of_flags(line));
    take_task(config, settings, known);
    put_over(values, layer_of_cluster(config, settings));
  }
  put_over(values, layer_of_flags(line));
  store(values, settings);
  if (auto& launch = settings.launch;
      line.command == "launch" && launch.hosts.empty()
      && launch.hosts_file.empty() && !surroundings.slurm.nodes.empty())
    launch.hosts = hosts_of_slurm(surroundings.slurm);
  settle(settings, surroundings);
  check_settings(settings, line.flags);
  return settings;
}

} // namespace troupe
