#pragma once

#include "actors/coordinator/coordinator.hpp"
#include "actors/shard/shard_store.hpp"
#include "strategies/leases.hpp"
#include "tests/sim/byte_links.hpp"
#include "tests/sim/periods.hpp"
#include "tests/sim/reached_steps.hpp"
#include "tests/sim/replica_links.hpp"
#include "tests/sim/replica_watch.hpp"
#include "tests/sim/runtime.hpp"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace troupe::sim {

/// How long members wait for another coordinator, in µs.
inline constexpr uint64_t max_away = 5'000'000;

/// One of two coordinators' processes: it has a voter, stands for election, and
/// once it leads a coordinator begins in it.
struct Candidate {
  uint32_t process = 0;
  std::unique_ptr<caf::actor_system> system;
  caf::actor proposer;
  std::shared_ptr<bool> hears;   ///< whether it does, from a majority
  coordinator_actor coordinator; ///< null: it does not lead
};

/// Nothing gets from one host to another until then.
struct HostCut {
  uint32_t from = 0, to = 0;
  uint64_t until = 0;
};

/// What a Cluster knows of its processes, its faults and what was promised.
struct ClusterState {
  ClusterState(const Job& job, bool streams)
    : replica_links_(streams), periods_(job) {}

  /// A role, and the process that it runs in now.
  struct Member {
    uint32_t process = 0;
    std::unique_ptr<caf::actor_system> system;
    std::shared_ptr<ShardStore> store;
    int memory = -1;         ///< of a shard: outlives its processes
    uint32_t memories = 0;   ///< that are lost
    bool up = false;         ///< it has joined
    uint64_t began = 0;      ///< when its process did
    Address coordinator = 0; ///< where it sends
  };

  ByteLinks byte_links_;
  ReplicaLinks replica_links_;
  ReplicaWatch replicas_;
  std::map<uint32_t, TensorView> shown_; ///< newest snapshots (undisturbed)
  /// By slice: the epoch in which a leader was last shown the end of it.
  std::map<uint32_t, uint64_t> end_shown_;
  std::string computed_wrong_; ///< what a task has found, which cannot throw it
  uint32_t coordinator_process_ = 0;
  std::unique_ptr<caf::actor_system> coordinator_system_;
  coordinator_actor coordinator_;
  std::map<uint64_t, uint32_t> coordinators_; ///< processes, by term
  std::array<Candidate, 2> candidates_;       ///< of standby worlds
  uint32_t third_voter_ = 0;                  ///< its process
  std::unique_ptr<caf::actor_system> third_system_;
  std::set<uint32_t> led_;               ///< processes with a coordinator
  std::map<uint64_t, uint32_t> elected_; ///< processes, by term
  /// Events that every later leader must have: term, kind, body.
  std::set<std::tuple<uint64_t, std::string, std::string>> decided_;
  std::map<uint32_t, uint64_t> heard_terms_; ///< the highest, by role's process
  uint32_t finisher_ = 0; ///< process of who said that the run is over
  uint32_t supervisor_process_ = 0;
  std::unique_ptr<caf::actor_system> supervisor_system_;
  Address to_coordinator_ = 0; ///< where the supervisor sends
  Address supervisor_ = 0;
  std::map<RoleId, Member> members_;
  std::map<uint32_t, RoleId> roles_; ///< by process

  ReachedSteps triggers_; ///< of faults
  ReachedSteps changes_;  ///< when one is asked for
  ReachedSteps switches_; ///< the same: of consistency
  uint32_t changed_ = 0;
  uint32_t switched_ = 0;
  bool removes_ = false;      ///< a worker's leave was asked for
  std::set<uint32_t> quick_;  ///< shards that are back at once
  std::vector<RoleId> added_; ///< as coordinators asked for
  std::set<RoleId> leaving_;  ///< they are not started again
  std::set<RoleId> gone_;     ///< the same, for good, and nobody was told
  uint64_t step_ = 0;         ///< furthest seen
  std::string last_note_;     ///< of the coordinator
  uint64_t computed_ = 0;
  uint32_t took_effect_ = 0;
  bool memory_lost_ = false;
  std::set<uint32_t> doomed_; ///< processes that have lost the coordinator
  bool kills_next_ = false;   ///< as like as not
  uint64_t blocked_until_ = 0;
  std::vector<HostCut> cuts_;
  // Of rough worlds:
  bool signalled_ = false;
  std::optional<uint32_t> told_to_end_; ///< coordinator's process that knows it
  std::set<RoleId> late_;             ///< they asked to leave after it was told
  std::set<RoleId> lacking_;          ///< they have too little memory each time
  std::map<RoleId, uint32_t> lacked_; ///< so often in a row, by now
  bool over_ = false;
  std::string outcome_line_;
  std::string summary_;
  int32_t status_ = 0;

  /// Whether a coordinator runs, or ran, in the process.
  bool leads(uint32_t process) const {
    return process == coordinator_process_ || led_.contains(process);
  }

  uint64_t begins_at_ = 0; ///< version of the newest activation
  uint64_t proposed_ = 0;
  uint64_t activated_ = 0;
  uint64_t left_ = 0; ///< newest epoch that the coordinator has left
  Periods periods_;
  /// The newest version of a slice that anybody was given, as a count of
  /// updates, and the processes of its replicas then.
  struct Read {
    uint64_t updates = 0;
    std::map<uint32_t, std::string> replicas;
  };
  std::map<uint32_t, Read> read_;
  bool beyond_ = false;            ///< more failed than a chain can bear
  std::vector<SliceChain> chains_; ///< of the newest activation
  std::vector<uint32_t> active_;   ///< processes of its members
  std::map<uint32_t, std::string> processes_; ///< of its shards
  /// Of each replica of the newest activation: memories lost until then.
  std::vector<std::map<uint32_t, uint32_t>> memories_;
  std::map<std::string, uint32_t> memory_of_;          ///< the same, by process
  std::map<uint64_t, std::vector<RankRange>> made_of_; ///< steps, k of n
  uint64_t rolled_back_ = 0;                           ///< epoch
  std::vector<LeaseSet> acknowledged_;                 ///< by slice (async)
  uint64_t lost_leases_ = 0; ///< consumed, and then of no head any more
  /// Leases of the steps that a coordinator found in the journal, by its term
  /// (async).
  std::map<uint64_t, uint64_t> counted_;
  uint64_t heard_term_ = 0; ///< of the newest epoch
  uint64_t pulled_epoch_ = 0;
};

} // namespace troupe::sim
