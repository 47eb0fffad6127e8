#pragma once

#include "actors/child_processes.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A `troupe train` of this program in a process of its own.
class ChaosJob {
public:
  /// `arguments`: those of the job, "train" first.
  explicit ChaosJob(std::vector<std::string> arguments);

  struct Address {
    std::string coordinator;
    std::string certificates;
  };
  /// Waits until the job says where its coordinator is.
  /// Errors: InputError with what the job said instead.
  Address address(std::chrono::milliseconds deadline);
  /// Waits for its end. Errors: InputError where it fails or does not end.
  void finish(std::chrono::milliseconds deadline);

private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::optional<Address> address_;
  std::optional<ChildProcesses::Exit> exit_;
  ChildProcesses processes_; ///< last: its thread uses what is above
};

} // namespace troupe
