#pragma once

#include "actors/coordinator/coordinator.hpp"
#include "actors/shard/shard_store.hpp"
#include "actors/voting/proposer_actor.hpp"
#include "strategies/restart_budget.hpp"
#include "tests/sim/cluster_state.hpp"
#include "tests/sim/journal_disk.hpp"
#include "tests/sim/oracle.hpp"
#include "tests/sim/runtime.hpp"
#include "tests/sim/scenario.hpp"
#include "tests/sim/voter_disk.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace troupe::sim {

/// A parameter-server job in a simulated world: the coordinator, workers and
/// shards of actors/, a supervisor that starts again who ends, and the faults
/// of a seed. A broken invariant is a Violation.
class Cluster : private ClusterState {
public:
  struct Result {
    uint64_t commits = 0;
    uint32_t faults = 0;   ///< that took effect
    uint32_t changes = 0;  ///< of members and slices that were made
    uint32_t switches = 0; ///< of consistency
    uint64_t virtual_us = 0;
    uint64_t events = 0;
    bool beyond = false; ///< more failed than the job promises to survive
  };

  /// `oracle`: what the result is compared with; null: nothing is checked, and
  /// `recorded` is filled in.
  Cluster(Scenario scenario, uint64_t seed, const Oracle* oracle);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  void trace() { runtime_.trace = true; }
  /// Runs the job to its end.
  Result run(uint32_t faults);

  Oracle recorded;
  Coverage coverage;

private:
  friend class ClusterHosts;
  friend class ClusterRough;
  // --- the coordinator (cluster_coordinator.cpp) ----------------------------
  void start_coordinator();
  uint64_t silence_deadline_ms() const;
  void coordinator_ended(const std::string& how);
  bool kill_coordinator();
  /// What stands for it in a process, as its role sees it.
  coordinator_actor line_to_coordinator(caf::actor_system& system, RoleId role,
                                        const coordinator_actor& first);
  void check_decided(uint32_t from, const Fence& fence, bool announced);

  // --- two coordinators and three voters (cluster_standby.cpp) --------------
  void start_standby();
  void start_third_voter();
  void start_candidate(uint32_t index);
  void candidate_ended(uint32_t index, const std::string& how);
  void elected(uint32_t index, uint32_t process, const Elected& elected);
  void lead(uint32_t index, uint64_t term,
            const std::shared_ptr<JournalSink>& journal,
            std::shared_ptr<const JobHistory> past);
  /// Who answers a role that begins; null: nobody leads.
  coordinator_actor who_leads();
  static VoterDisk& voter_disk(uint32_t index);
  void check_sent(uint32_t from, const Letter& letter);
  void check_standby_ended() const;
  bool end_is_decided() const;
  bool kill_standby();
  bool kill_voter();
  bool stop_leader();
  bool split();

  // --- processes ------------------------------------------------------------
  void start(RoleId role);
  void say_hello(RoleId role, uint32_t process);
  void spawn(RoleId role, const JobInfo& info, const coordinator_actor& from);
  void ended(RoleId role, uint32_t process, const std::string& how);
  /// Nobody starts it again.
  void forget(RoleId role);
  void supervise(const Letter& letter);
  void record_end();
  int new_memory(RoleId role);

  // --- faults (faults.cpp, losses.cpp) --------------------------------------
  void plan_faults(uint32_t count);
  void progressed(uint64_t step);
  void ask_for_change(); ///< of who takes part, or who keeps what
  void ask_for_switch();
  void inject();
  Fault draw_fault();
  bool inject(Fault fault);
  bool slow_disk();
  bool kill_some(RoleKind kind, bool with_memory);
  bool lose_chain();
  bool lose_workers();
  bool cut_off();
  void kill(RoleId role, bool with_memory);
  bool may_lose_memory(RoleId shard) const;
  bool fragile();
  bool guarded(uint32_t process);
  bool is_shard(uint32_t process) const;
  bool is_replica(uint32_t shard, uint32_t slice) const;
  bool stand_still(uint64_t low, uint64_t high);
  bool cut_some(bool control);
  bool block_some();
  uint32_t some_process(bool with_coordinator);
  Phase phase() const;

  // --- checks (checks.cpp, lease_checks.cpp) --------------------------------
  void on_message(uint32_t from, uint32_t to, const Letter& letter);
  void note_sent(uint32_t to, const Letter& letter);
  void check(const Propose& propose);
  void check(const Activate& activation);
  void check(const Sealed& sealed);
  bool survives(uint32_t slice) const;
  bool remembered(uint32_t slice) const;
  void check_leases_of(const Activate& activation);
  void note_applied(const LeaseApplied& applied);
  void note_applied(const Applied& applied);
  void note_shares(const StepShares& shares);
  void forget_moved();
  void forget_undone(const Activate& activation);
  void note_read(const Pulled& pulled);
  void check_stores() const;
  bool came_back_late(uint32_t slice) const;
  void check_store(uint32_t shard) const;
  void check_end() const;
  void check_all_ended() const;
  void note_compute(uint32_t process, uint64_t step, const float* parameters);

  Scenario scenario_;
  const Job& job_;
  const Oracle* oracle_;
  Runtime runtime_;
  uint64_t job_id_;
  RestartBudget budget_{1'000'000};
  JournalDisk disk_;
  std::shared_ptr<SimulatedJournal> journal_; ///< of the newest coordinator
};

} // namespace troupe::sim
