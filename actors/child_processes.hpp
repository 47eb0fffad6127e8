#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Runs and watches child processes from one thread of its own: starts them,
/// reads their output line by line, reaps them. A child dies with this process
/// (parent-death signal) and is in a process group of its own, so that Ctrl-C
/// reaches the launcher alone.
class ChildProcesses {
public:
  struct Exit {
    int status = 0; ///< exit status, or -1
    int signal = 0; ///< that killed it, or 0
    std::deque<std::string> last_lines;
    std::string describe() const; ///< "signal 9 (Killed)", "exit status 1"
  };
  using OnLine = std::function<void(const std::string& line)>;
  using OnExit = std::function<void(const Exit&)>;

  /// `before_start` is called by each start(), on its thread.
  explicit ChildProcesses(std::function<void()> before_start = {});
  /// Kills (SIGKILL) and reaps whatever runs.
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Starts `arguments[0]`; standard output and error are read as one stream.
  /// `inherit` is a descriptor that the child gets under the same number (-1:
  /// none). Callbacks run on the watching thread. Returns the process id.
  /// Errors: std::runtime_error with the system's reason.
  int start(std::vector<std::string> arguments, int inherit, OnLine on_line,
            OnExit on_exit);
  void signal(int pid, int signal);
  /// Waits until all have ended, while within each `deadline_ms` one ends or
  /// prints something; returns whether so.
  bool wait_all(uint64_t deadline_ms);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace troupe
