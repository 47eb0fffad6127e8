#include "apps/launch/cluster.hpp"
#include "apps/launch/node_agent.hpp"
#include "apps/settings/commands.hpp"
#include "apps/settings/idle_flags.hpp"
#include "apps/terminal/interrupt.hpp"
#include "kernels/base/error.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

namespace troupe {
namespace {

/// Errors: nullopt where it is refused.
std::optional<Settings> as_typed(const LaunchFlags& flags,
                                 const Surroundings& around) {
  try {
    return parse_settings(flags.job, around);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

/// Errors: UsageError, of nothing that was not typed.
Settings parsed(const std::vector<std::string>& arguments,
                const LaunchFlags& flags, const Surroundings& around) {
  try {
    return parse_settings(arguments, around);
  } catch (const UsageError&) {
    const auto typed = as_typed(flags, around);
    if (!typed || may_be_apart(typed->job))
      throw;
    throw UsageError("launch: the roles of --strategy "
                     + to_string(typed->job.strategy)
                     + " share one process; add --strategy "
                       "multi_worker_mirrored, parameter_server or another of "
                       "several, or train on one machine without launch");
  }
}

/// The job that follows --, with every role in a process: TF_CONFIG, which says
/// what this machine is among several, is not asked.
Settings job_of(const LaunchFlags& flags) {
  auto arguments = flags.job;
  if (std::ranges::find(arguments, "--processes") == arguments.end())
    arguments.insert(arguments.begin() + 1, "--processes");
  auto around = surroundings_of_process();
  around.tf_config.clear();
  auto job = parsed(arguments, flags, around);
  if (job.given.contains("listen"))
    throw UsageError("launch: --listen is of a run on one machine; by which "
                     "address the hosts reach this one is --address A, before "
                     "--");
  if (job.print_config)
    throw UsageError("launch: --print-config prints what holds for troupe "
                     "train; ask that");
  if (job.standby && flags.address.empty())
    throw UsageError("launch: --standby needs the address by which the hosts "
                     "reach both coordinators: add --address A before --");
  return job;
}

} // namespace

int run_launch(const Settings& settings) {
  if (settings.launch.kubernetes.asked || settings.launch.dry_run)
    let_signals_go(); // there is nothing to end in good order
  if (settings.launch.kubernetes.asked)
    return print_kubernetes(settings);
  const auto job = job_of(settings.launch);
  // The plan needs no data: the roles are the same for any number of samples.
  const Job planned{job.job, job.job.global_batch};
  Cluster cluster{settings.launch, planned.plan, planned.goes_in_lock_step(),
                  job.min_workers};
  if (job.on_loss == "replan") // each host reads the checkpoint of all
    cluster.let_all_read(job.checkpoints.dir);
  if (settings.launch.dry_run) {
    std::fputs(cluster.describe().c_str(), stdout);
    return 0;
  }
  return run_train(job, &cluster);
}

int run_node(const Settings&) {
  return play_agent();
}

} // namespace troupe
