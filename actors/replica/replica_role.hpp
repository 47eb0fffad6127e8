#pragma once

#include "actors/role/context.hpp"

namespace troupe {

/// Spawns a replica of the all-reduce strategies (one_device, mirrored,
/// multi_worker_mirrored, central_storage): all variables on one device. The
/// actor keeps its executor supplied with turns, each a whole step, and no
/// message lies on a step's path (ReplicaSteps). The replicas of an epoch sum
/// their gradients as a group (GroupMaker, Reducer); whoever sums a run of
/// elements also updates it for all, or hands out the sum. The actor decides
/// who is in the group, ends it, and reports to the coordinator.
/// Completion: the actor ends with the job.
replica_actor spawn_replica(caf::actor_system& system, RoleContext context);

} // namespace troupe
