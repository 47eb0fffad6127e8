#pragma once

#include "actors/certificates/member_name.hpp"
#include "actors/launch/host_processes.hpp"
#include "actors/process/child_processes.hpp"
#include "actors/sockets/descriptor.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace troupe {

/// Plays roles in children of this process, `program role NAME …`, and holds
/// the memory of those that keep slices, so that a new process takes it over.
/// Thread-safe.
class LocalProcesses : public HostProcesses {
public:
  struct Options {
    std::shared_ptr<ChildProcesses> processes;
    std::string program; ///< path of the troupe executable
    /// What follows --certificates; null: nothing does.
    std::function<std::string(const MemberName&)> certificates;
    /// Knows why they ended; the same for all children of this process.
    std::shared_ptr<RoleDeaths> deaths;
  };
  explicit LocalProcesses(Options options);

  uint64_t start(Order order) override;
  void kill(uint64_t number) override;
  void forget(RoleId role) override;
  void tell_memory(RoleId role,
                   std::function<void(const std::string& at)> tell) override;

private:
  std::string memory_at(RoleId role);
  int memory_of(const Order& order);

  const Options options_;
  std::mutex mutex_;
  std::map<RoleId, Descriptor> memory_;
};

} // namespace troupe
