#pragma once

#include "actors/wire/caf.hpp"
#include "actors/wire/messages/chain.hpp"
#include "actors/wire/messages/consistency.hpp"
#include "actors/wire/messages/faults.hpp"
#include "actors/wire/messages/joining.hpp"
#include "actors/wire/messages/readers.hpp"
#include "actors/wire/messages/reports.hpp"
#include "actors/wire/messages/reshaping.hpp"
#include "actors/wire/messages/rows.hpp"
#include "actors/wire/messages/snapshots.hpp"
#include "actors/wire/messages/stage.hpp"
#include "actors/wire/messages/step.hpp"
#include "actors/wire/messages/supervision.hpp"

#include <functional>

/// All messages that actors exchange, by topic in actors/wire/messages/, with
/// their type ids here: append-only. A build with other messages is refused
/// when it says hello (message_revision).
namespace troupe {

/// Work that an executor finished for the actor that submitted it; stays in
/// the process.
struct Completion {
  std::function<void()> then;
};

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(troupe, (troupe::RankRange))
CAF_ADD_TYPE_ID(troupe, (troupe::RoleId))
CAF_ADD_TYPE_ID(troupe, (troupe::TensorView))
CAF_ADD_TYPE_ID(troupe, (troupe::Fence))
CAF_ADD_TYPE_ID(troupe, (troupe::Hello))
CAF_ADD_TYPE_ID(troupe, (troupe::JobInfo))
CAF_ADD_TYPE_ID(troupe, (troupe::Join))
CAF_ADD_TYPE_ID(troupe, (troupe::Propose))
CAF_ADD_TYPE_ID(troupe, (troupe::SliceState))
CAF_ADD_TYPE_ID(troupe, (troupe::Sealed))
CAF_ADD_TYPE_ID(troupe, (troupe::Member))
CAF_ADD_TYPE_ID(troupe, (troupe::Activate))
CAF_ADD_TYPE_ID(troupe, (troupe::Pull))
CAF_ADD_TYPE_ID(troupe, (troupe::Pulled))
CAF_ADD_TYPE_ID(troupe, (troupe::Push))
CAF_ADD_TYPE_ID(troupe, (troupe::LeasePush))
CAF_ADD_TYPE_ID(troupe, (troupe::LeafLoss))
CAF_ADD_TYPE_ID(troupe, (troupe::LeafReport))
CAF_ADD_TYPE_ID(troupe, (troupe::Applied))
CAF_ADD_TYPE_ID(troupe, (troupe::LeaseRequest))
CAF_ADD_TYPE_ID(troupe, (troupe::LeaseGrant))
CAF_ADD_TYPE_ID(troupe, (troupe::LeaseApplied))
CAF_ADD_TYPE_ID(troupe, (troupe::SnapshotSlice))
CAF_ADD_TYPE_ID(troupe, (troupe::SnapshotRequest))
CAF_ADD_TYPE_ID(troupe, (troupe::Pause))
CAF_ADD_TYPE_ID(troupe, (troupe::Paused))
CAF_ADD_TYPE_ID(troupe, (troupe::EndAt))
CAF_ADD_TYPE_ID(troupe, (troupe::Finish))
CAF_ADD_TYPE_ID(troupe, (troupe::Trouble))
CAF_ADD_TYPE_ID(troupe, (troupe::MetricSample))
CAF_ADD_TYPE_ID(troupe, (troupe::MetricsReport))
CAF_ADD_TYPE_ID(troupe, (troupe::Evaluate))
CAF_ADD_TYPE_ID(troupe, (troupe::Evaluation))
CAF_ADD_TYPE_ID(troupe, (troupe::Attach))
CAF_ADD_TYPE_ID(troupe, (troupe::Detach))
CAF_ADD_TYPE_ID(troupe, (troupe::RoleDied))
CAF_ADD_TYPE_ID(troupe, (troupe::ReplaceRole))
CAF_ADD_TYPE_ID(troupe, (troupe::GiveUp))
CAF_ADD_TYPE_ID(troupe, (troupe::Progress))
CAF_ADD_TYPE_ID(troupe, (troupe::DataEpochEnd))
CAF_ADD_TYPE_ID(troupe, (troupe::Note))
CAF_ADD_TYPE_ID(troupe, (troupe::Finished))
CAF_ADD_TYPE_ID(troupe, (troupe::StopRequest))
CAF_ADD_TYPE_ID(troupe, (troupe::Completion))
CAF_ADD_TYPE_ID(troupe, (troupe::Measure))
CAF_ADD_TYPE_ID(troupe, (troupe::Bits<float>))
CAF_ADD_TYPE_ID(troupe, (troupe::Bits<double>))
CAF_ADD_TYPE_ID(troupe, (troupe::BlockSums))
CAF_ADD_TYPE_ID(troupe, (troupe::Scalars))
CAF_ADD_TYPE_ID(troupe, (troupe::LinkLost))
CAF_ADD_TYPE_ID(troupe, (troupe::SliceChain))
CAF_ADD_TYPE_ID(troupe, (troupe::CaughtUp))
CAF_ADD_TYPE_ID(troupe, (troupe::ChainJoin))
CAF_ADD_TYPE_ID(troupe, (troupe::SliceCopy))
CAF_ADD_TYPE_ID(troupe, (troupe::ChainUpdate))
CAF_ADD_TYPE_ID(troupe, (troupe::ChainScalars))
CAF_ADD_TYPE_ID(troupe, (troupe::ScalarsHeld))
CAF_ADD_TYPE_ID(troupe, (troupe::WorkerRanks))
CAF_ADD_TYPE_ID(troupe, (troupe::LeaseRefused))
CAF_ADD_TYPE_ID(troupe, (troupe::Consistency))
CAF_ADD_TYPE_ID(troupe, (troupe::AskShares))
CAF_ADD_TYPE_ID(troupe, (troupe::StepShares))
CAF_ADD_TYPE_ID(troupe, (troupe::SwitchConsistency))
CAF_ADD_TYPE_ID(troupe, (troupe::RowPull))
CAF_ADD_TYPE_ID(troupe, (troupe::RowSnapshot))
CAF_ADD_TYPE_ID(troupe, (troupe::StepPhase))
CAF_ADD_TYPE_ID(troupe, (troupe::InjectFault))
CAF_ADD_TYPE_ID(troupe, (troupe::ArmFault))
CAF_ADD_TYPE_ID(troupe, (troupe::ReshapeJob))
CAF_ADD_TYPE_ID(troupe, (troupe::StartRole))
CAF_ADD_TYPE_ID(troupe, (troupe::RetireRole))
CAF_ADD_TYPE_ID(troupe, (troupe::EpochPause))
CAF_ADD_TYPE_ID(troupe, (troupe::SnapshotTaken))
CAF_ADD_TYPE_ID(troupe, (troupe::SliceHistory))
CAF_ADD_TYPE_ID(troupe, (troupe::FaultKind))
CAF_ADD_TYPE_ID(troupe, (troupe::FaultStruck))
CAF_ADD_TYPE_ID(troupe, (troupe::LeaveRequest))
CAF_ADD_TYPE_ID(troupe, (troupe::Readmit))
CAF_ADD_TYPE_ID(troupe, (troupe::StageValues))
CAF_ADD_TYPE_ID(troupe, (troupe::RowsWanted))
CAF_ADD_TYPE_ID(troupe, (troupe::RowsServed))
CAF_ADD_TYPE_ID(troupe, (troupe::ValueSpread))
CAF_ADD_TYPE_ID(troupe, (troupe::Spreads))
CAF_ADD_TYPE_ID(troupe, (troupe::RoleGone))
CAF_ADD_TYPE_ID(troupe, (troupe::Remains))
CAF_ADD_TYPE_ID(troupe, (troupe::Replanned))
CAF_END_TYPE_ID_BLOCK(troupe)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Completion)
