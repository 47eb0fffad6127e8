#include "apps/launch/cluster.hpp"
#include "apps/launch/node_agent.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/base/error.hpp"

#include <algorithm>
#include <cstdio>

namespace troupe {
namespace {

/// The job that follows --, with every role in a process: TF_CONFIG, which says
/// what this machine is among several, is not asked.
Settings job_of(const LaunchFlags& flags) {
  auto arguments = flags.job;
  if (std::ranges::find(arguments, "--processes") == arguments.end())
    arguments.insert(arguments.begin() + 1, "--processes");
  auto around = surroundings_of_process();
  around.tf_config.clear();
  auto job = parse_settings(arguments, around);
  if (job.given.contains("listen"))
    throw UsageError("launch: --listen is of a run on one machine; by which "
                     "address the hosts reach this one is --address A, before "
                     "--");
  if (!job.timeline.empty() || !job.flight.empty())
    throw UsageError("launch: --timeline and --flight read what roles wrote on "
                     "this machine; leave them out where roles are elsewhere");
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
  const auto job = job_of(settings.launch);
  // The plan needs no data: the roles are the same for any number of samples.
  Cluster cluster{settings.launch, Job{job.job, job.job.global_batch}.plan};
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
