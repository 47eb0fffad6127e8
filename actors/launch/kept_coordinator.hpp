#pragma once

#include "actors/launch/job_runner.hpp"
#include "actors/process/child_processes.hpp"
#include "actors/process/role_death.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// The process of a job's coordinator, which this one started and starts again:
/// with the same arguments, among them the journal that it goes on from.
class KeptCoordinator {
public:
  KeptCoordinator(std::shared_ptr<ChildProcesses> processes,
                  const LaunchOptions& launch,
                  std::vector<std::string> arguments);

  /// What the process said first: its address, or how it failed.
  struct Start {
    std::string address;
    RunResult failure;
  };
  /// Starts it, and waits for that; again, up to so often, where others kill it
  /// before.
  /// Errors: InputError where it says nothing for a minute.
  Start start(const RunEvents& events, uint32_t restarts);

  /// What a run has come to whose coordinator's process has ended so; none: it
  /// runs.
  std::optional<RunResult> ended() const;

  /// From here on `died` is told of its end, on another thread: at once where
  /// it has ended already.
  void watch(std::function<void(const ChildProcesses::Exit&)> died);
  /// Starts it, and waits for nothing: a standby.
  void begin(std::function<void()> listens = {});
  /// Whether it was started, or has said something, within the last minute.
  bool speaks() const;
  /// Ends its process (SIGKILL).
  void kill(const std::string& why) const;
  /// Why this one has ended the newest process that has; empty: it has not.
  std::string why_killed() const;
  /// Starts it again; `listens` is called on another thread once it says where.
  /// Not to be called from `died`.
  /// Errors: InputError without a journal to go on from; std::runtime_error
  /// with the system's reason.
  void restart(std::function<void()> listens = {});

private:
  struct Shared;
  struct First;
  First start_once(const RunEvents& events);
  void run(std::function<void(const std::string&)> on_address,
           std::function<void(const ChildProcesses::Exit&)> on_exit);

  std::shared_ptr<ChildProcesses> processes_;
  LaunchOptions launch_;
  std::vector<std::string> arguments_;
  std::shared_ptr<Shared> shared_;
};

/// A run that was told to end before it had begun; none: it was not.
std::optional<RunResult> told_to_end(const RunEvents& events);

/// The line that a process gave for its failure, or how it ended.
std::string line_of(const ChildProcesses::Exit& exit);
std::string line_of(const ChildProcesses::Exit& exit, const RoleDeath& death);

} // namespace troupe
