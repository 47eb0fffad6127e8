#pragma once

#include "actors/wire/messages/consistency.hpp"
#include "actors/wire/messages/fields.hpp"
#include "actors/wire/messages/greeting.hpp"
#include "strategies/epoch_parts.hpp"

#include <string>
#include <vector>

/// Membership epochs.
namespace troupe {

/// The coordinator proposes an epoch: leave the one before, answer with Sealed.
struct Propose {
  Fence fence;
  Consistency consistency{}; ///< so far: seals are reported in its terms
  /// Steps that this coordinator has as committed: what was reported of those
  /// after them is reported again, as it may not have been heard.
  uint64_t committed = 0;
};
/// A member has left its epoch, and says what it holds, as in a Seal.
struct Sealed {
  Fence fence; ///< of the proposed epoch
  RoleId role;
  uint64_t incarnation = 0;
  std::vector<SliceState> slices;
  uint64_t version = 0;
  std::vector<RankRange> nodes{};
};
/// Where a member is reached: on the control plane, and by links.
struct Member {
  RoleId role;
  std::string endpoint;
  std::string links;
};
/// The proposed epoch is decided: who is in it, and where all go on.
struct Activate {
  Fence fence;
  std::vector<Member> members;
  uint64_t version = 0;           ///< every role goes on from here
  bool rollback = false;          ///< owners restore `version` first
  std::vector<SliceState> slices; ///< what owners have: workers resend the rest
  bool synchronise = false; ///< replicas: all take `version` from `source`
  /// Who has it: its place among the epoch's workers in order of their names,
  /// which is its rank in their group.
  uint32_t source = 0;
  /// The chain of each slice; empty: those that the plan begins with.
  std::vector<SliceChain> chains{};
  std::vector<WorkerRanks> ranks{}; ///< of every worker of the epoch
  Consistency consistency{};        ///< from here on
  /// Ranks of step `version` that nobody has: their owners compute them.
  std::vector<RankRange> missing{};
  /// The folder of the checkpoint that a rollback restores; empty: it restores
  /// what the job began with.
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
  std::string reason;          ///< names the peer
  std::vector<RoleId> peers{}; ///< the other ends, as far as they are known
};

TROUPE_INSPECT(Propose, TROUPE_FIELD(fence), TROUPE_FIELD(consistency),
               TROUPE_FIELD(committed))
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
               TROUPE_FIELD(reason), TROUPE_FIELD(peers))

} // namespace troupe
