#pragma once

#include "actors/process/child_processes.hpp"
#include "strategies/restart_budget.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace troupe {

/// How a role's process ended, in words, and what that says of its next life.
struct RoleDeath {
  std::string how; ///< "signal 9 (Killed)", "exit status 1: its last line"
  RestartBudget::Life life;
};

/// Finds out why processes of this control group ended: which the kernel ended
/// for want of memory is known from its counters alone. Thread-safe.
class RoleDeaths {
public:
  /// `root` as of read_control_group().
  explicit RoleDeaths(std::string root = "");

  /// To be called once for each process that ended.
  RoleDeath explain(const ChildProcesses::Exit& exit);

private:
  bool ended_for_memory(const ChildProcesses::Exit& exit);

  std::mutex mutex_;
  std::string root_;
  std::optional<uint64_t> kills_; ///< for want of memory, explained so far
};

} // namespace troupe
