#pragma once

#include "actors/process/child_processes.hpp"
#include "apps/process/program_image.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A `troupe train` of this program in a process of its own.
class LaunchedJob {
public:
  /// `arguments`: those of the job, "train" first.
  explicit LaunchedJob(std::vector<std::string> arguments);

  struct Address {
    std::string coordinator;
    std::string certificates;
  };
  /// Waits until the job says where its coordinator is.
  /// Errors: InputError with what the job said instead.
  Address address(std::chrono::milliseconds deadline);
  /// The process that starts those of the roles.
  int launcher() const { return launcher_; }
  bool over();
  /// Presses Ctrl-C: the run saves what it has and ends with 130.
  void interrupt();
  /// Sends it SIGTERM: the same, with 143.
  void terminate();
  /// Waits for its end. Errors: InputError where it does not come.
  ChildProcesses::Exit wait(std::chrono::milliseconds deadline);
  /// The same. Errors: InputError where it ends with another status,
  /// or does not end.
  void finish(std::chrono::milliseconds deadline, int status = 0);

private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::optional<Address> address_;
  std::optional<ChildProcesses::Exit> exit_;
  int launcher_ = 0;
  ProgramImage image_;
  ChildProcesses processes_{
    {image_.descriptor(), false}}; ///< last: its thread uses what is above
};

} // namespace troupe
