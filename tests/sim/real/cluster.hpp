#pragma once

#include "actors/coordinator/coordinator.hpp"
#include "actors/role/context.hpp"
#include "actors/shard/shard_store.hpp"
#include "tests/sim/fault_table.hpp"
#include "tests/sim/reached_steps.hpp"
#include "tests/sim/real/network.hpp"
#include "tests/sim/real/scenario.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace troupe::real {

/// What was going on when a fault came.
enum class Phase : uint8_t { forming, sealing, linking, stepping };
inline constexpr uint32_t phases = 4;
std::string to_string(Phase phase);
using Coverage = sim::FaultTable<Fault, fault_kinds, Phase, phases>;

/// A job of CAF's actors in a World, of a parameter server, a pipeline, tensor
/// members, or some of these beside shards: the product's coordinator, workers
/// and shards, or stages, or members, a supervisor that starts again who ends,
/// and the faults of a seed.
class Cluster {
public:
  struct Result {
    uint64_t commits = 0;
    uint32_t faults = 0;
    uint64_t events = 0;
    uint64_t messages = 0; ///< of the control plane, as bytes
    uint64_t corrupted = 0;
    uint64_t changes = 0; ///< of members and slices that were made
    std::string weights_sha256;
    std::string state_sha256;
  };

  Cluster(Scenario scenario, uint64_t seed, bool trace);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// Runs the job to its end. Errors: Broken.
  Result run(uint32_t faults);
  Coverage coverage;

private:
  struct Member {
    uint32_t process = 0;
    std::shared_ptr<ShardStore> store;
    int memory = -1; ///< of who keeps slices: outlives its processes
    bool up = false; ///< it has joined
  };

  void start_coordinator();
  void start_supervisor();
  void start(RoleId role);
  void say_hello(RoleId role, uint32_t process);
  void spawn(RoleId role, uint32_t process, const JobInfo& info);
  std::shared_ptr<ShardStore> store_of(RoleId role, Member& member);
  void ended(RoleId role, uint32_t process, const std::string& how);
  void finished(const Finished& finished);
  void retire(RoleId role);
  /// Nobody starts it again.
  void forget(RoleId role);
  void tell_coordinator(caf::message message);
  void check_end();

  void see(const caf::message& message);
  void see_sent(const caf::message& message);
  void see_values(uint32_t to, const StageValues& values);
  void hit_epoch();
  void progressed(uint64_t step);
  /// Asks for another worker, shard, or place of slices.
  void ask_for_change();
  void inject();
  bool inject(Fault fault);
  bool kill_some(RoleKind kind, bool with_memory);
  bool may_lose_memory(RoleId shard) const;
  bool fragile();
  bool part_may_lose_memory(RoleId lost) const;
  bool is_shard(uint32_t process) const;
  uint32_t some_process(bool with_coordinator);
  bool stand_still(uint64_t low, uint64_t high);
  bool block_some();
  bool corrupt_some();
  Phase phase() const;

  Scenario scenario_;
  const Job& job_;
  World world_;
  Network network_;
  uint64_t job_id_;
  caf::strong_actor_ptr coordinator_;
  caf::strong_actor_ptr supervisor_;
  uint32_t coordinator_process_ = 0;
  uint32_t supervisor_process_ = 0;
  std::map<RoleId, Member> members_;
  std::vector<RoleId> added_; ///< as coordinators asked for
  std::set<RoleId> leaving_;  ///< they are not started again

  sim::ReachedSteps triggers_; ///< of faults
  sim::ReachedSteps changes_;  ///< when one is asked for
  uint64_t step_ = 0;
  std::string last_note_; ///< of the coordinator
  uint32_t took_effect_ = 0;
  uint64_t disturbed_until_ = 0;
  bool memory_lost_ = false;
  uint64_t proposed_ = 0;
  uint64_t activated_ = 0;
  uint64_t pulled_epoch_ = 0; ///< or whose values crossed between stages
  uint64_t crossing_epoch_ = 0;
  /// What crossed in that epoch: to whom, of which step, what and whose.
  std::set<std::tuple<uint32_t, uint64_t, StageStream, uint32_t>> crossings_;
  std::string broken_; ///< what a link told
  std::vector<SliceChain> chains_;
  std::optional<Finished> finished_;
};

} // namespace troupe::real
