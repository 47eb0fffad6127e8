#pragma once

#include "kernels/files/folder_lock.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe {

/// The file of a role's output in a run's --log-dir.
std::string log_path(const std::string& log_dir, const std::string& role);

/// What the roles' processes print: each line prefixed with its role, kept in
/// `log_dir` (a file a role) where one is given, and the last lines of all in
/// memory. Thread-safe.
class RoleOutput {
public:
  static constexpr size_t kept_lines = 20;
  static constexpr size_t told_lines = 5;

  /// The folder is this run's alone.
  /// Errors: InputError when it cannot be created or written, or another run
  /// has it: which.
  explicit RoleOutput(std::string log_dir);
  ~RoleOutput();
  RoleOutput(const RoleOutput&) = delete;
  RoleOutput& operator=(const RoleOutput&) = delete;

  void add(const std::string& role, const std::string& line);
  /// What is told of a run that failed: the last lines, each once, of the role
  /// that the run's own names, where it names one that has printed something,
  /// else of all; then how many there were before, and where.
  std::vector<std::string> last_words(const std::string& line) const;
  /// Lines for the user: a file cannot be written, or can again.
  std::vector<std::string> take_notes();
  /// The lines that came since the last call, at most the kept ones.
  std::deque<std::string> take_new();

private:
  struct Log {
    int handle = -1;
    int failure = 0;   ///< errno that the user was told of; 0: it is written
    uint64_t lost = 0; ///< lines
  };

  struct Printed {
    uint64_t lines = 0;
    std::deque<std::string> last;

    void add(std::string line);
  };

  void write(const std::string& role, const std::string& line);
  std::string place_of(const std::string& role) const;

  mutable std::mutex mutex_;
  std::string log_dir_;
  std::unique_ptr<FolderLock> lock_;
  std::map<std::string, Log> logs_; ///< by role
  std::vector<std::string> notes_;
  Printed all_;
  std::map<std::string, Printed> of_; ///< by role
  size_t unseen_ = 0;                 ///< how many at the end of all_ are new
};

} // namespace troupe
