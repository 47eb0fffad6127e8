#pragma once

#include "actors/certificates/credentials.hpp"
#include "actors/launch/host_processes.hpp"
#include "strategies/plan.hpp"
#include "strategies/role_id.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Hosts that a launcher starts roles on, besides the coordinator, which stays
/// with it.
class RoleHosts {
public:
  virtual ~RoleHosts() = default;

  /// Makes sure that all who have to can talk to each other. `authority`: of
  /// the job, with its key, which signs for the roles; `stop` is asked
  /// meanwhile, and a reason ends it. Returns the host of the address at which
  /// the coordinator is to listen; none: it was stopped.
  /// Errors: InputError naming the host, the cause, and what to do.
  virtual std::optional<std::string>
  open(const Credentials& authority, const std::function<std::string()>& stop,
       const std::function<void(const std::string& line)>& note) = 0;
  virtual std::shared_ptr<HostProcesses> of(RoleId role) = 0;
  /// How many devices a split model has left where that role is started no
  /// more, its processes have all ended, and who is not there now is not waited
  /// for: never more than before. And the roles of another plan, for at most so
  /// many, get their hosts. Errors: InputError.
  virtual uint32_t devices_left(RoleId gone) = 0;
  virtual void place(const Plan& plan) = 0;
  /// The host of each role that has one, as its user calls that.
  virtual std::map<RoleId, std::string> places() = 0;
  /// A change of the running job that hosts which came or went ask for, as
  /// RunEvents::reshape; and what they have to say. Empty: none.
  virtual std::string wish() { return {}; }
  virtual std::vector<std::string> take_notes() { return {}; }
  /// What the hosts' flight recorders keep is to be written to this folder of
  /// this machine. Called before any role is started.
  virtual void keep_flights_in(const std::string& folder) = 0;
  /// Has that done, and waits for it, not for long. Returns whether that is all
  /// of the run's; what does not come stays there.
  virtual bool bring_flights() = 0;
  /// All roles stand still, or go on.
  virtual void pause(bool stands) = 0;
  /// What that member was given until then holds no longer.
  virtual void revoked(const MemberName& name, int64_t until) = 0;
  /// The run is over: roles may end by themselves, for a moment.
  virtual void end() = 0;
};

} // namespace troupe
