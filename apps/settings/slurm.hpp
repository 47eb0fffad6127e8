#pragma once

#include <string>
#include <vector>

namespace troupe {

/// What Slurm says of an allocation, in a job's environment; empty: it does
/// not.
struct SlurmWords {
  std::string nodes;   ///< SLURM_JOB_NODELIST
  std::string tasks;   ///< SLURM_TASKS_PER_NODE
  std::string process; ///< SLURM_PROCID, of a task of srun
};

/// The hosts of a list such as "node[01-03,7],gpu-1", in order.
/// Errors: UsageError: it is none, or has more than 10000 hosts.
/// Source: Slurm, sbatch(1), SLURM_JOB_NODELIST; hostlist expressions.
std::vector<std::string> slurm_hosts(const std::string& list);

/// The same with how many tasks each has, "2(x3),1", as --hosts takes it.
/// Errors: as above; UsageError where these do not fit the hosts.
std::string hosts_of_slurm(const SlurmWords& words);

} // namespace troupe
