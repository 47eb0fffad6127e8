#pragma once

#include "actors/control/control_line.hpp"
#include "tests/sim/cluster.hpp"

#include <cstdint>
#include <vector>

namespace troupe::sim {

/// Worlds of hosts: nobody supervises, an operator starts again who ended.
/// Hosts are cut off from one another, die as wholes and are slow.
class ClusterHosts {
public:
  explicit ClusterHosts(Cluster& cluster);

  /// How a role's process speaks to the coordinator.
  ControlLineOptions line(uint32_t process) const;
  /// A process that has begun is cut off as its host is.
  void block_newcomer();
  /// Does one of the host faults; false: it would change nothing.
  bool inject(Fault fault);

private:
  uint32_t host_of(RoleId role) const;
  std::vector<uint32_t> processes_on(uint32_t host) const;
  bool can_spare(uint32_t host) const;
  bool cut();
  bool kill();
  bool slow();

  Cluster& cluster_;
  Runtime& runtime_;
};

} // namespace troupe::sim
