#pragma once

#include "actors/replica/epoch_group.hpp"
#include "actors/replica/group_statistics.hpp"
#include "actors/role/context.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace troupe {

/// The calls of GroupStatistics, as collectives of an epoch's group. Both
/// outlive them; the outcome has the waits, and why it cannot go on.
GroupStatistics::Calls calls_in(EpochGroup& group, StepOutcome& outcome);

/// Who is in a step whose passes wait for each other, and where a member has
/// room for that.
struct LockStep {
  std::vector<std::vector<uint32_t>> filled; ///< ranks with samples, by member
  uint32_t rank = 0;                         ///< this member
  size_t values = 0; ///< 0: nobody else is there, or nobody waits
  float* room = nullptr;
};

/// Has the leaves of a worker computed by work(peers), null where nobody else
/// is there: each pass waits at its norms for those of the group's others. What
/// it waited there is no computing. A step that is broken off is abandoned, and
/// the outcome says why, if that is the group's. From a task of the executor.
StepOutcome
compute_together(EpochGroup& group, const LockStep& step,
                 const std::function<StepGradient(RankPeers* peers)>& work);

/// Tells the flight recorder what a worker waited at the norms of a pass that
/// has just ended: as if it had done so before it computed.
void record_waits(const RoleContext& context, const StepOutcome& outcome);

} // namespace troupe
