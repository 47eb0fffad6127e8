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

private:
  mutable std::mutex mutex_;
  std::string log_dir_;
  std::map<std::string, std::FILE*> files_;
  std::deque<std::string> last_;
};

} // namespace troupe
