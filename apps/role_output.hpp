#pragma once

#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace troupe {

/// What the roles' processes print: each line prefixed with its role, kept in
/// `log_dir` (a file a role) where one is given, and the last lines of all in
/// memory. Thread-safe.
class RoleOutput {
public:
  static constexpr size_t kept_lines = 20;

  /// Errors: InputError when the folder cannot be created.
  explicit RoleOutput(std::string log_dir);
  ~RoleOutput();
  RoleOutput(const RoleOutput&) = delete;
  RoleOutput& operator=(const RoleOutput&) = delete;

  void add(const std::string& role, const std::string& line);
  std::deque<std::string> last_lines() const;
  /// The lines that came since the last call, at most the kept ones.
  std::deque<std::string> take_new();

private:
  mutable std::mutex mutex_;
  std::string log_dir_;
  std::map<std::string, std::FILE*> files_;
  std::deque<std::string> last_;
  size_t unseen_ = 0; ///< how many at the end of last_ are new
};

} // namespace troupe
