#pragma once

#include "actors/messages/consistency.hpp"
#include "actors/messages/fields.hpp"

#include <string>
#include <vector>

/// Joining a job, and its membership epochs.
namespace troupe {

/// Counted up with every change of a wire type.
inline constexpr uint32_t message_revision = 22;

/// A role's process asks what it is to do; `again`: it knows, and asks only who
/// is the coordinator now.
struct Hello {
  RoleId role;
  uint32_t revision = message_revision;
  bool again = false;
  std::string host{}; ///< of the process; empty: in the coordinator's
  uint32_t process = 0;
};
struct JobInfo {
  uint64_t job = 0;
  uint64_t incarnation = 0; ///< 0: it keeps the one that it has
  std::string options;      ///< JobOptions as JSON; empty: as before
  uint64_t term = 0;        ///< of this coordinator
};
/// The role is ready; its sender is the role's actor.
struct Join {
  uint64_t job = 0;
  RoleId role;
  uint64_t incarnation = 0;
  std::string endpoint; ///< HOST:PORT, or empty: in this process
  std::string build;    ///< instruction set and libraries; worker
  std::string probe;    ///< hash of the fixed probe; worker (PROTOCOL 21)
  std::string links;    ///< where its links are met; empty: it accepts none
  std::string host{};   ///< as in Hello
  uint32_t process = 0;
};
struct Propose {
  Fence fence;
  Consistency consistency{}; ///< so far: seals are reported in its terms
};
/// What an owner holds of one slice: it can serve versions oldest … newest.
struct SliceState {
  uint32_t slice = 0;
  uint64_t oldest = 0;
  uint64_t newest = 0;
  std::vector<RankRange> held; ///< nodes of step `newest`
  uint64_t lease_floor = 0;    ///< async
  std::vector<uint64_t> leases_above;
  /// The newest epoch in which the owner was a replica of the slice and had all
  /// that its predecessor had. Of replicas that differ in it, the one with the
  /// larger has the slice's history, whatever the versions say: what another
  /// applied alone since was never acknowledged.
  uint64_t epoch = 0;
};
/// Who keeps a slice in an epoch. Shard indices.
struct SliceChain {
  uint32_t slice = 0;
  std::vector<uint32_t> replicas; ///< head (takes pushes) … tail (is pulled)
  std::vector<uint32_t> learners; ///< get a copy from the tail, and updates
};
struct Sealed {
  Fence fence; ///< of the proposed epoch
  RoleId role;
  uint64_t incarnation = 0;
  std::vector<SliceState> slices; ///< empty for a role that owns none
  uint64_t version = 0; ///< replica: it holds all slices of it; worker: the
                        ///< step of which it has, or computes, `nodes`
  std::vector<RankRange> nodes{};
};
struct Member {
  RoleId role;
  std::string endpoint;
  std::string links;
};
/// The virtual ranks that a worker owns in an epoch.
struct WorkerRanks {
  RoleId worker;
  RankRange ranks;
  /// Replicas: nodes of the step that the epoch begins with whose sums it has.
  std::vector<RankRange> held{};
};
struct Activate {
  Fence fence;
  std::vector<Member> members;
  uint64_t version = 0;           ///< every role goes on from here
  bool rollback = false;          ///< owners restore `version` first
  std::vector<SliceState> slices; ///< what owners have: workers resend the rest
  bool synchronise = false; ///< replicas: all take `version` from `source`
  uint32_t source = 0;      ///< place of a replica that has it
  /// Of each slice; empty: those that the plan begins with.
  std::vector<SliceChain> chains{};
  std::vector<WorkerRanks> ranks{}; ///< of every worker of the epoch
  Consistency consistency{};        ///< from here on
  /// Ranks of step `version` that nobody has: their owners compute them.
  std::vector<RankRange> missing{};
  /// Of a rollback: the folder of the checkpoint to restore; empty: what the
  /// job began with.
  std::string checkpoint{};
};
/// A learner holds all that it was to learn: the next epoch may install it.
struct CaughtUp {
  Fence fence;
  RoleId role;
};
/// A member cannot go on in this epoch without one of its links.
struct LinkLost {
  Fence fence;
  RoleId role;
  std::string reason; ///< names the peer
};

TROUPE_INSPECT(Hello, TROUPE_FIELD(role), TROUPE_FIELD(revision),
               TROUPE_FIELD(again), TROUPE_FIELD(host), TROUPE_FIELD(process))
TROUPE_INSPECT(JobInfo, TROUPE_FIELD(job), TROUPE_FIELD(incarnation),
               TROUPE_FIELD(options), TROUPE_FIELD(term))
TROUPE_INSPECT(Join, TROUPE_FIELD(job), TROUPE_FIELD(role),
               TROUPE_FIELD(incarnation), TROUPE_FIELD(endpoint),
               TROUPE_FIELD(build), TROUPE_FIELD(probe), TROUPE_FIELD(links),
               TROUPE_FIELD(host), TROUPE_FIELD(process))
TROUPE_INSPECT(Propose, TROUPE_FIELD(fence), TROUPE_FIELD(consistency))
TROUPE_INSPECT(SliceState, TROUPE_FIELD(slice), TROUPE_FIELD(oldest),
               TROUPE_FIELD(newest), TROUPE_FIELD(held),
               TROUPE_FIELD(lease_floor), TROUPE_FIELD(leases_above),
               TROUPE_FIELD(epoch))
TROUPE_INSPECT(SliceChain, TROUPE_FIELD(slice), TROUPE_FIELD(replicas),
               TROUPE_FIELD(learners))
TROUPE_INSPECT(Sealed, TROUPE_FIELD(fence), TROUPE_FIELD(role),
               TROUPE_FIELD(incarnation), TROUPE_FIELD(slices),
               TROUPE_FIELD(version), TROUPE_FIELD(nodes))
TROUPE_INSPECT(Member, TROUPE_FIELD(role), TROUPE_FIELD(endpoint),
               TROUPE_FIELD(links))
TROUPE_INSPECT(WorkerRanks, TROUPE_FIELD(worker), TROUPE_FIELD(ranks),
               TROUPE_FIELD(held))
TROUPE_INSPECT(Activate, TROUPE_FIELD(fence), TROUPE_FIELD(members),
               TROUPE_FIELD(version), TROUPE_FIELD(rollback),
               TROUPE_FIELD(slices), TROUPE_FIELD(synchronise),
               TROUPE_FIELD(source), TROUPE_FIELD(chains), TROUPE_FIELD(ranks),
               TROUPE_FIELD(consistency), TROUPE_FIELD(missing),
               TROUPE_FIELD(checkpoint))
TROUPE_INSPECT(CaughtUp, TROUPE_FIELD(fence), TROUPE_FIELD(role))
TROUPE_INSPECT(LinkLost, TROUPE_FIELD(fence), TROUPE_FIELD(role),
               TROUPE_FIELD(reason))

} // namespace troupe
