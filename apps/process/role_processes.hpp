#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe {

/// One process, held so that its number cannot come to mean another one.
class HeldProcess {
public:
  /// Errors: InputError where there is none, or the kernel (before Linux 5.3)
  /// cannot hold it.
  explicit HeldProcess(int pid);
  ~HeldProcess();
  HeldProcess(HeldProcess&& other) noexcept;
  HeldProcess& operator=(HeldProcess&&) = delete;

  int pid() const { return pid_; }
  /// Returns false when it has ended.
  bool signal(int number) const;
  /// Waits so long, at most, for its end; returns whether it has ended.
  bool ended(int wait_ms = 0) const;
  /// Whether a signal has stopped it.
  bool stopped() const;

private:
  int pid_;
  int descriptor_;
};

/// The processes of a job: `troupe role …` that its launcher has started.
class RoleProcesses {
public:
  explicit RoleProcesses(int launcher) : launcher_(launcher) {}

  /// Looks who plays the roles now; keeps all that were ever seen.
  void look();
  /// Who plays "worker:0" as far as the last look tells; null: nobody.
  const HeldProcess* playing(const std::string& role) const;
  /// Whom --listen HOST:PORT was given to, of those; null: nobody.
  const HeldProcess* listening_at(const std::string& address) const;
  /// Sends all that live such a signal, but not the launcher; look() first.
  void signal_all(int number) const;
  /// What they and the launcher hold now; look() first.
  struct Holdings {
    uint64_t processes = 0;
    uint64_t descriptors = 0; ///< but sockets
    uint64_t sockets = 0;
    uint64_t memory_files = 0; ///< that outlive who made them, each once
    bool operator==(const Holdings&) const = default;
  };
  Holdings count() const;
  /// Those seen that are still there after so long.
  std::vector<std::string> left(int wait_ms) const;

private:
  int launcher_;
  std::map<int, HeldProcess> seen_;     ///< by process id
  std::map<std::string, int> role_pid_; ///< of the last look
  std::map<int, std::string> names_;
};

} // namespace troupe
