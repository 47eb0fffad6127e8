#pragma once

#include "actors/launch/host_processes.hpp"
#include "actors/role/context.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class KeptCoordinator;

/// What a role supervisor runs: roles as actors of this process, or each as a
/// process of its own.
struct SupervisorOptions {
  std::vector<RoleId> roles;
  /// Each role's process, a worker's, is the shard of its number as well.
  bool paired = false;
  uint32_t restart_budget = 5;

  // Actors of this process.
  std::shared_ptr<const Job> job;
  JobData data;
  uint64_t job_id = 0;
  std::string flight; ///< folder of flight recorders; empty: there are none

  // Processes.
  /// Where a role is played, the same as long as it is; null: by an actor of
  /// this process.
  std::function<std::shared_ptr<HostProcesses>(RoleId)> host_of;
  /// The coordinator and its standby, where their processes are this node's to
  /// start again.
  std::vector<std::shared_ptr<KeptCoordinator>> coordinators;
  /// Knows why they ended; of processes.
  std::shared_ptr<RoleDeaths> deaths;
  /// Says which roles there are once the coordinator has laid the job out so
  /// (Replanned); null: a role that is started no more ends the run.
  std::function<std::vector<RoleId>(const std::string& layout)> replan;
  /// How many devices are left without that role's and those of hosts that are
  /// lost; with replan.
  std::function<uint32_t(RoleId gone)> devices_left;
  std::string coordinator; ///< HOST:PORT,… of them, for roles elsewhere
  std::vector<std::string> arguments; ///< of each role, besides
  /// "needs about 1.9 GiB (…)", what a role takes; it may take a while to say.
  std::function<std::string(RoleId)> memory_need;
  /// Receives each line a role prints, on another thread.
  std::function<void(RoleId, const std::string&)> on_line;
};

/// Spawns the supervisor of a node: starts its roles, starts a dead one again
/// as long as the restart budget lasts (it refills when steps commit), on this
/// host or on others (host_processes.hpp), which keep the memory of shards so
/// that a new process takes it over.
supervisor_actor spawn_role_supervisor(caf::actor_system& system,
                                       const coordinator_actor& coordinator,
                                       SupervisorOptions options);

} // namespace troupe
