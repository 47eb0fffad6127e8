#pragma once

#include "actors/wire/messages.hpp"

/// The typed interfaces of all roles. Who talks to whom:
///
///   observer <- coordinator <-> role supervisor, evaluator, and
///
///   parameter_server:  coordinator <-> worker <-> shard <-> coordinator,
///                      shard <-> shard of slice 0 in steps that need scalars;
///                      with --dense all_reduced workers meet in a group, too
///   mirrored and its kin: coordinator <-> replica; replicas meet in a group
///                      (kernels/collective/reducer.hpp), not by messages
///   pipeline:          coordinator <-> stage <-> the stage beside it;
///                      with --sync-data parameter_server stage <-> shard, too
///   --readers:         coordinator <-> reader <-> the row fetcher of a worker
namespace troupe {

template <class... Messages>
using one_way = caf::typed_actor<caf::result<void>(Messages)...>;

/// What every member of an epoch understands.
using role_actor =
  one_way<Propose, Activate, Pause, EndAt, SnapshotRequest, SnapshotTaken,
          Finish, Completion, caf::tick_atom, ArmFault, Readmit>;

using worker_actor =
  role_actor::extend<caf::result<void>(Pulled), caf::result<void>(LeaseGrant)>;

using replica_actor = role_actor;

using shard_actor = role_actor::extend<
  caf::result<void>(Pull), caf::result<void>(Push),
  caf::result<void>(LeasePush), caf::result<void>(BlockSums),
  caf::result<void>(Scalars), caf::result<void>(ChainJoin),
  caf::result<void>(SliceCopy), caf::result<void>(ChainUpdate),
  caf::result<void>(ChainScalars), caf::result<void>(ScalarsHeld),
  caf::result<void>(AskShares), caf::result<void>(StepShares),
  caf::result<void>(RowPull)>;

using stage_actor =
  role_actor::extend<caf::result<void>(StageValues), caf::result<void>(Pulled)>;

using reader_actor = role_actor::extend<caf::result<void>(RowsWanted)>;

using row_fetcher_actor = one_way<RowsServed, Completion, caf::tick_atom>;

using evaluator_actor = one_way<Evaluate, Finish, Completion>;

using observer_actor = one_way<Progress, DataEpochEnd, Spreads, Note, Finished>;

using supervisor_actor = observer_actor::extend<
  caf::result<void>(ReplaceRole), caf::result<void>(StartRole),
  caf::result<void>(RetireRole), caf::result<void>(StopRequest),
  caf::result<void>(Completion), caf::result<void>(caf::tick_atom)>;

using coordinator_actor = caf::typed_actor<
  caf::result<JobInfo>(Hello), caf::result<void>(Join),
  caf::result<void>(Sealed), caf::result<void>(LeafReport),
  caf::result<void>(Applied), caf::result<void>(LeaseRequest),
  caf::result<void>(LeaseApplied), caf::result<void>(LeaseRefused),
  caf::result<void>(RowSnapshot), caf::result<void>(SnapshotSlice),
  caf::result<void>(Paused), caf::result<void>(Trouble),
  caf::result<void>(LinkLost), caf::result<void>(CaughtUp),
  caf::result<void>(StepShares), caf::result<Note>(SwitchConsistency),
  caf::result<Note>(InjectFault), caf::result<void>(FaultStruck),
  caf::result<Note>(ReshapeJob), caf::result<Note>(LeaveRequest),
  caf::result<void>(EpochPause), caf::result<void>(MetricsReport),
  caf::result<void>(Evaluation), caf::result<void>(Spreads),
  caf::result<void>(Attach), caf::result<void>(Detach),
  caf::result<void>(RoleDied), caf::result<void>(GiveUp),
  caf::result<Note>(RoleGone), caf::result<Replanned>(Remains),
  caf::result<void>(StopRequest), caf::result<void>(Completion),
  caf::result<void>(caf::tick_atom)>;

} // namespace troupe
