#pragma once

#include "strategies/placement.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Which role is on which of the hosts that come and go. A role stays on its
/// host as long as that is there; when it is started again after that has gone,
/// it goes to another one.
///
/// Shards and readers are always placed, on the host that is least full, with
/// none of the same chain if there is one; workers where a slot is free, and
/// wait where none is. No more than `max_hosts` hosts have roles: what else
/// comes is spare.
class HostPool {
public:
  struct Options {
    size_t min_hosts = 1; ///< hosts with which a job begins
    size_t max_hosts = 1; ///< that have roles
    uint32_t owners = 1;  ///< shards are replicas of each other: N, N + owners
  };
  HostPool(std::vector<HostSlots> hosts, const Options& options);

  /// Why the job does not fit on the fewest hosts, by the user's words; empty:
  /// it does.
  std::string refusal(const Plan& plan, uint32_t min_workers) const;

  void came(size_t host);
  /// Its roles have none from here on.
  void went(size_t host);
  bool is_there(size_t host) const { return there_[host]; }
  size_t there() const;
  bool enough() const { return there() >= options_.min_hosts; }

  /// Where a role is to be started now; nothing: it waits.
  std::optional<size_t> place(RoleId role);
  /// Where it is; nothing: nowhere.
  std::optional<size_t> host_of(RoleId role) const;
  /// Nobody plays it again.
  void forget(RoleId role);

  /// That hosts have besides.
  uint32_t free_slots() const;
  /// Workers that there are, waiting ones too.
  uint32_t workers() const;
  std::vector<RoleId> on(size_t host) const;
  const std::vector<HostSlots>& hosts() const { return hosts_; }

private:
  bool takes(size_t host) const;
  uint32_t used(size_t host) const;
  bool has_of_chain(size_t host, RoleId role) const;

  std::vector<HostSlots> hosts_;
  Options options_;
  std::vector<bool> there_;
  std::vector<size_t> order_; ///< in which those that are there came
  std::map<RoleId, std::optional<size_t>> roles_;
};

} // namespace troupe
