#pragma once

#include "actors/job/job.hpp"
#include "tests/sim/fault_table.hpp"
#include "tests/sim/gradient.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::sim {

enum class Fault : uint8_t {
  kill_worker,
  kill_shard,
  kill_host, ///< a shard and its memory
  pause,     ///< a process stands still for less than silence takes
  stop,      ///< … for longer
  cut_link,  ///< a lost connection, or a frame that is damaged
  cut_control,
  one_way, ///< nothing gets from one process to another for a time
  delay,
  repeat,  ///< messages come again, some of them much later
  cut_off, ///< nothing gets from a process to another one; then it dies
  clock,   ///< the coordinator's clock is far ahead when it wakes
  // Of coordinators that keep a journal and are started again:
  kill_coordinator, ///< and now and then some role with it
  slow_disk,
  full_disk, ///< the journal breaks; the run goes on
  /// In reckless worlds only: all replicas of a chain die within some
  /// milliseconds, some of them with their memory.
  lose_chain,
  // Of two coordinators with three voters:
  kill_standby, ///< the coordinator that does not lead
  kill_voter,   ///< the one with a process of its own
  stop_leader,  ///< for longer than voters wait, now and then than anybody
  split,        ///< a coordinator from the other one and from voters
  // Of several hosts:
  host_kill, ///< all roles of one
  host_cut,  ///< two from one another, one way or both
  host_slow,
  // Of rough worlds:
  signal_all, ///< all processes, or some, are told to end
  unreadable, ///< a journal, when its process begins
  stuck_disk, ///< a journal's, which takes seconds
  memory,     ///< a role has too little, now and then each time
};
inline constexpr uint32_t fault_kinds = 27;
inline constexpr uint32_t first_host_fault = 20;
inline constexpr uint32_t first_rough_fault = 23;
/// Worlds of these seeds and above are worlds of hosts.
inline constexpr uint64_t first_host_seed = 10'000'000;
/// … and rough ones.
inline constexpr uint64_t first_rough_seed = 20'000'000;
/// … and of norms: odd ones of replicas, even ones of workers beside shards.
inline constexpr uint64_t first_norm_seed = 30'000'000;
inline constexpr uint32_t plain_fault_kinds = 15; ///< that any world may have
std::string to_string(Fault fault);

/// What the members were doing when a fault came.
enum class Phase : uint8_t {
  forming, ///< somebody is missing
  sealing,
  linking, ///< activated, before the first pull
  copying,
  pulling,
  computing,
  pushing,
  forwarding,
  quiet,
};
inline constexpr uint32_t phases = 9;
std::string to_string(Phase phase);

using Coverage = FaultTable<Fault, fault_kinds, Phase, phases>;

/// A job that worlds run: how it is synchronised, and of what size.
struct Scenario {
  enum class Kind : uint8_t {
    sync,    ///< plain steps
    scalars, ///< each step needs a norm over all slices
    backup,  ///< k of n
    async,
    bounded,       ///< staleness
    tables,        ///< plain steps with a sparse table beside dense variables
    replicas,      ///< no shards: workers sum with one another
    dense_reduced, ///< rows on shards; workers sum the rest with one another
  } kind = Kind::sync;
  uint32_t workers = 1;
  uint32_t shards = 1;
  uint32_t chain = 1;
  int64_t staleness = -1;
  uint32_t changes = 0; ///< of who takes part, or who keeps what, are asked for
  uint32_t switches = 0;  ///< of consistency are asked for
  bool reckless = false;  ///< more fails than the job promises to survive
  bool streams = false;   ///< replicas sum over these, not in memory
  bool clips = false;     ///< replicas: a norm over all variables in each step
  bool norms = false;     ///< sums over all ranks in the middle of passes
  bool free_rows = false; ///< dense_reduced: they are applied on arrival
  bool exact = false;     ///< rows have updates without a gradient, too
  /// The coordinator has a process of its own and a journal, and may die.
  bool kept = false;
  /// There are two of them, and three voters keep the journal.
  bool standby = false;
  /// Roles are on so many, started by hand; 0: one, with a supervisor.
  uint32_t hosts = 0;
  bool rough = false; ///< see ClusterRough
  std::shared_ptr<const Job> job;
  JobData data; ///< of tables: samples with ids

  /// As it begins.
  bool async() const { return kind == Kind::async || kind == Kind::bounded; }
  /// Workers sum with one another.
  bool reduces() const {
    return kind == Kind::replicas || kind == Kind::dense_reduced;
  }
  /// Workers meet one another, if not to sum gradients.
  bool meets() const { return reduces() || norms; }
  bool has_tables() const {
    return kind == Kind::tables || kind == Kind::dense_reduced;
  }
  GradientKind gradient() const {
    const bool steps = kind == Kind::sync || kind == Kind::scalars
                       || kind == Kind::tables || reduces();
    return steps && switches == 0 && !free_rows ? GradientKind::ordered
                                                : GradientKind::counted;
  }
  std::string describe() const;
};

/// The scenario of a seed; the same job for equal numbers of everything.
Scenario scenario_of(uint64_t seed);
/// The same samples, steps and rule with one worker and one shard.
Scenario undisturbed(const Scenario& scenario);

} // namespace troupe::sim
