#pragma once

#include "strategies/restart_budget.hpp"
#include "tests/sim/cluster.hpp"

#include <cstdint>
#include <string>

namespace troupe::sim {

/// How a process ends that got no memory.
inline const std::string no_memory = "ended by the kernel: memory";

/// Rough worlds: processes are told to end, the coordinator's journal cannot be
/// read or is slow for seconds, a role has too little memory, maybe each time.
class ClusterRough {
public:
  explicit ClusterRough(Cluster& cluster);

  /// Does one of the rough faults; false: it would change nothing.
  bool inject(Fault fault);

  /// A role begins; where it has too little memory it does not last.
  void began(RoleId role);
  /// What a supervisor knows of a role that has died.
  /// Errors: Violation, where it has had too little memory again and again.
  RestartBudget::Life life_of(RoleId role, const std::string& how);

  /// A message comes to the coordinator that leads.
  void heard(uint32_t coordinator, const Letter& letter);
  /// Holds the end of a run that has not made all steps against why it ended.
  /// Errors: Violation.
  static void check_early_end(const Cluster& cluster);

private:
  bool signal();
  void tell_observer(uint32_t process, Address coordinator);
  void tell_role(RoleId role, uint32_t process);
  void ask_to_leave(RoleId role, uint32_t process);
  void answered(RoleId role, uint32_t process, const Letter& letter);
  bool hide_journal();
  bool slow_journal();
  bool lack_memory();
  static void check_saved(const Cluster& cluster);

  Cluster& cluster_;
  Runtime& runtime_;
};

} // namespace troupe::sim
