#pragma once

#include "strategies/plan.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// A host by the name that its user gives it, and how many roles it takes.
struct HostSlots {
  std::string name;
  uint32_t slots = 1; ///< 0: it takes none any more
};

/// Reads "host1:4,host2,[::1]:2", one slot where no number stands behind a
/// name.
/// Errors: returns false and fills `mistake` (an empty name, one that is there
/// twice or begins with a dash, slots that are not 1 to 10000).
bool parse_hosts(const std::string& text, std::vector<HostSlots>& hosts,
                 std::string& mistake);
/// Reads a file of hosts: "NAME [slots=N] [address=A]" a line, # begins a
/// comment. `addresses` gets the addresses that are given, by name.
/// Errors: as above, with the line's number.
bool parse_host_lines(const std::string& text, std::vector<HostSlots>& hosts,
                      std::map<std::string, std::string>& addresses,
                      std::string& mistake);

/// Decides which role is on which host. Each worker, shard, stage and
/// tensor member takes a slot; the coordinator takes none, as it stays with
/// whoever launches.
///
/// Replicas of a chain are on different hosts. Shards go where most slots are
/// free, so that hosts share them. Workers and stages are divided by how full
/// their hosts are, and neighbours stay together: of the fixed tree's sums, and
/// of the activations between stages, few cross the network. A worker and the
/// shard of its number that share a process take one slot, the worker's; where
/// shares have replicas, those are with the workers that follow, which are on
/// other hosts then.
class Placement {
public:
  explicit Placement(std::vector<HostSlots> hosts);

  /// Errors: returns false and fills `mistake`, the user's line: more roles
  /// than slots, a chain longer than there are hosts.
  bool place(const Plan& plan, std::string& mistake);

  /// An index of hosts. A role that came to a running job gets one when it is
  /// first asked for, slots or not.
  size_t host_of(RoleId role);
  const std::vector<HostSlots>& hosts() const { return hosts_; }
  const std::map<RoleId, size_t>& roles() const { return roles_; }
  /// Those that a host has, in order.
  std::vector<RoleId> on(size_t host) const;
  bool used(size_t host) const { return used_[host] > 0; }

  /// Pairs of hosts, the lower index first, of which a role of the one has to
  /// talk to a role of the other, in either direction. `in_lock_step`: passes
  /// stop for sums over all virtual ranks, of all pipelines, or workers.
  std::set<std::pair<size_t, size_t>> links(const Plan& plan,
                                            bool in_lock_step = false) const;

private:
  size_t min_full() const;
  bool place_shards(const Plan& plan, std::string& mistake);
  void place_in_order(const std::vector<RolePlan>& roles);
  void place_apart(const std::vector<RolePlan>& roles);
  void put(RoleId role, size_t host);

  std::vector<HostSlots> hosts_;
  std::vector<uint32_t> used_; ///< slots, by host
  std::map<RoleId, size_t> roles_;
};

} // namespace troupe
