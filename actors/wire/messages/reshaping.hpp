#pragma once

#include "actors/wire/bits.hpp"
#include "actors/wire/messages/fields.hpp"

#include <string>

/// Changing who takes part in a running job, and who keeps which slice.
namespace troupe {

/// Somebody outside asks for a change (strategies/reshape.hpp has the words);
/// answered once it is so.
struct ReshapeJob {
  std::string what;
};
/// A role whose process was told to leave (a signal) asks: answered once it is
/// known how. It leaves, or the run ends, and either way it is told to finish;
/// or it goes without handing over, and the answer is an error.
struct LeaveRequest {
  uint64_t job = 0;
  RoleId role;
  std::string why; ///< "terminated"
};
/// Tells a supervisor to start a role that the plan does not have.
struct StartRole {
  RoleId role;
};
/// Tells a supervisor that the role is about to end and not to be started
/// again. Answered when that is noted; one that does not end in time is killed.
struct RetireRole {
  RoleId role;
};
/// How long an epoch change kept a member from its work. Worker: from its seal
/// until it pushes and pulls again. Shard: from its seal until every slice that
/// is pulled from it is served.
struct EpochPause {
  Fence fence; ///< of the epoch that began
  RoleId role;
  Bits<double> seconds = 0;
};

TROUPE_INSPECT(ReshapeJob, TROUPE_FIELD(what))
TROUPE_INSPECT(LeaveRequest, TROUPE_FIELD(job), TROUPE_FIELD(role),
               TROUPE_FIELD(why))
TROUPE_INSPECT(StartRole, TROUPE_FIELD(role))
TROUPE_INSPECT(RetireRole, TROUPE_FIELD(role))
TROUPE_INSPECT(EpochPause, TROUPE_FIELD(fence), TROUPE_FIELD(role),
               TROUPE_FIELD(seconds))

} // namespace troupe
