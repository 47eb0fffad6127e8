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
/// reaches the launcher alone. It begins with SIGINT, SIGTERM and SIGHUP held
/// back: it is to watch for them, and none ends it before it does.
class ChildProcesses {
public:
  struct Exit {
    int pid = 0;
    int status = 0; ///< exit status, or -1
    int signal = 0; ///< that killed it, or 0
    int refused =
      0; ///< the system's reason why its program did not start, or 0
    uint64_t lived_ms = 0;
    std::deque<std::string> last_lines; ///< of each the first 8 KiB
    /// "signal 9 (Killed)", "exit status 1", "its program did not start: …".
    std::string describe() const;
  };
  using OnLine = std::function<void(const std::string& line)>;
  using OnExit = std::function<void(const Exit&)>;

  /// What children run, where it is not the file that their first argument
  /// names, and whom this process, the first one of a container, buries.
  struct Options {
    int image = -1;      ///< descriptor of an executable file; -1: none
    bool adopts = false; ///< reaps all that the system gives to it
    std::function<void()> before_start{}; ///< called by each start()
    size_t longest_line = 8192; ///< bytes; what a line has beyond is left out
  };

  ChildProcesses();
  explicit ChildProcesses(Options options);
  /// Kills (SIGKILL) and reaps whatever runs.
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Starts `arguments[0]`, or the image under that name; standard output and
  /// error are read as one stream.
  /// `inherit` is a descriptor that the child gets under the same number (-1:
  /// none), `input` one that becomes its standard input (-1: there is none).
  /// Callbacks run on the watching thread. Returns the process id.
  /// Errors: std::runtime_error with the system's reason.
  int start(std::vector<std::string> arguments, int inherit, OnLine on_line,
            OnExit on_exit, int input = -1);
  void signal(int pid, int signal);
  /// Stops all (SIGSTOP), and starts none, until told to go on.
  void pause(bool stand_still);
  /// Waits until all have ended, while within each `deadline_ms` one ends or
  /// prints something; returns whether so.
  bool wait_all(uint64_t deadline_ms);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace troupe
