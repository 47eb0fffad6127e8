#pragma once

#include "actors/process/child_processes.hpp"
#include "apps/chaos/host_network.hpp"
#include "apps/process/program_image.hpp"
#include "strategies/plan.hpp"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// On which of so many hosts a role is: replicas of a chain on different ones.
size_t host_of(const Plan& plan, RoleId role, size_t hosts);

/// A job whose roles are started one by one on the hosts of a network, as an
/// operator does by hand.
class HostJob {
public:
  /// `job`: the flags of its coordinator. `certificates`: a folder that is not
  /// there yet, or one of a job.
  HostJob(HostNetwork& network, const Plan& plan, std::vector<std::string> job,
          std::string certificates);

  /// Kills all of a host's roles and forgets what its memory keeps.
  void kill(size_t host);
  /// Starts them again, by the same commands.
  void start(size_t host);
  /// Sends the coordinator SIGTERM, which ends the job in order.
  void terminate();
  /// The coordinator has ended by itself.
  bool over();
  /// Waits for the end of all. Errors: InputError naming who did not end, or
  /// how.
  void finish(std::chrono::milliseconds deadline);
  /// Who ended although nobody killed it, with its last words.
  std::vector<std::string> ended();

private:
  struct Role {
    RoleId role;
    size_t host = 0;
    std::vector<std::string> command{};
    int pid = 0;
    bool runs = false;
    bool killed = false;
  };

  void start(Role& role);

  HostNetwork& network_;
  std::string coordinator_; ///< HOST:PORT
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<Role> roles_;                  ///< the coordinator first
  std::optional<ChildProcesses::Exit> exit_; ///< the coordinator's own
  bool terminated_ = false;
  std::vector<std::string> ended_;
  ProgramImage image_;
  ChildProcesses processes_; ///< last: its thread uses what is above
};

} // namespace troupe
