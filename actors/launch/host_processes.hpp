#pragma once

#include "actors/certificates/member_name.hpp"
#include "actors/process/role_death.hpp"
#include "strategies/role_names.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe {

/// The processes of roles on one host: on this one (local_processes.hpp), or on
/// one where an agent is asked to start them (apps/launch/agent_link.hpp).
class HostProcesses {
public:
  struct End {
    RoleDeath death;
    bool well = false; ///< as roles end with their run
    RoleProcess process;
  };
  /// A role that is to be played. Both are called on another thread.
  struct Order {
    RoleId role;
    /// Worker K and shard K share a process, which is the worker's here.
    bool paired = false;
    std::string coordinator;            ///< HOST:PORT,… where it may be
    std::vector<std::string> arguments; ///< besides
    std::function<void(const std::string& line)> on_line;
    std::function<void(const End& end)> on_end;

    /// Under which it is started, and has its certificate.
    MemberName name() const {
      return paired ? MemberName{MemberName::Kind::sharded, role.index}
                    : name_of(role);
    }
  };

  virtual ~HostProcesses() = default;
  /// Starts one; what a shard or a stage keeps in memory is that of the process
  /// before. Returns a number for it. Does not wait for a host elsewhere: what
  /// goes wrong there is an end.
  /// Errors: std::runtime_error with the system's reason.
  virtual uint64_t start(Order order) = 0;
  /// Ends it by force, if it has not ended.
  virtual void kill(uint64_t number) = 0;
  /// Nobody plays the role again: what was kept of it may go.
  virtual void forget(RoleId role) = 0;
  /// Tells, once, where a process of this machine may open what is kept of a
  /// role, until forget(); empty: it may not, or nothing is. What is on a host
  /// elsewhere is brought here first. Maybe on another thread.
  virtual void tell_memory(RoleId role,
                           std::function<void(const std::string& at)> tell) = 0;
};

} // namespace troupe
