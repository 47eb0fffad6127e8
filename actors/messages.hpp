#pragma once

#include "actors/bits.hpp"
#include "actors/caf.hpp"
#include "actors/tensor_view.hpp"
#include "monitoring/metrics.hpp"
#include "strategies/leases.hpp"
#include "strategies/membership.hpp"
#include "strategies/rank_tree.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// All messages that actors exchange, in one place and append-only. A build
/// with other messages is refused when it says hello (message_revision).
namespace troupe {

/// Counted up with every change of a wire type.
inline constexpr uint32_t message_revision = 4;

/// Delivery is fenced by these: a receiver drops what does not carry its own
/// (PROTOCOL 14).
struct Fence {
  uint64_t job = 0;
  uint64_t term = 0;
  uint64_t epoch = 0;
  friend bool operator==(const Fence&, const Fence&) = default;
};

// --- joining and epochs ------------------------------------------------------

/// A role's process asks what it is to do.
struct Hello {
  RoleId role;
  uint32_t revision = message_revision;
};
struct JobInfo {
  uint64_t job = 0;
  uint64_t incarnation = 0;
  std::string options; ///< JobOptions as JSON
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
};
struct Propose {
  Fence fence;
};
/// What an owner holds of one slice: it can serve versions oldest … newest.
struct SliceState {
  uint32_t slice = 0;
  uint64_t oldest = 0;
  uint64_t newest = 0;
  std::vector<RankRange> held; ///< nodes of step `newest`
  uint64_t lease_floor = 0;    ///< async
  std::vector<uint64_t> leases_above;
};
struct Sealed {
  Fence fence; ///< of the proposed epoch
  RoleId role;
  uint64_t incarnation = 0;
  std::vector<SliceState> slices; ///< empty for a role that owns none
  uint64_t version = 0;           ///< replica: it holds all slices of it
};
struct Member {
  RoleId role;
  std::string endpoint;
  std::string links;
};
struct Activate {
  Fence fence;
  std::vector<Member> members;
  uint64_t version = 0;           ///< every role goes on from here
  bool rollback = false;          ///< owners restore `version` first
  std::vector<SliceState> slices; ///< what owners have: workers resend the rest
  bool synchronise = false; ///< replicas: all take `version` from `source`
  uint32_t source = 0;      ///< index of a replica that has it
};
/// A member cannot go on in this epoch without one of its links.
struct LinkLost {
  Fence fence;
  RoleId role;
  std::string reason; ///< names the peer
};

// --- a step ------------------------------------------------------------------

struct Pull {
  Fence fence;
  RoleId worker;
  uint64_t version = 0;
};
struct Pulled {
  Fence fence;
  uint64_t version = 0;
  uint32_t slice = 0;
  TensorView values;
};
/// Identity: (step, node, slice). An empty view is an empty leaf's identity.
struct Push {
  Fence fence;
  uint64_t step = 0;
  RankRange node;
  uint32_t slice = 0;
  TensorView values;
};
/// Identity: (lease, slice).
struct LeasePush {
  Fence fence;
  uint64_t lease = 0;
  uint32_t slice = 0;
  uint64_t pulled_version = 0;
  TensorView values;
  Bits<float> scale = 1; ///< of clipping
};
/// One slice's block sums in round `round` of a step (PROTOCOL 5), for the
/// decider: the owner of slice 0. Identity: (step, round, slice).
struct BlockSums {
  Fence fence;
  uint64_t step = 0;
  uint32_t round = 0;
  uint32_t slice = 0;
  std::vector<Bits<double>> sums;
};
/// What the decider has written down of a round.
struct Scalars {
  Fence fence;
  uint64_t step = 0;
  uint32_t round = 0;
  std::vector<Bits<float>> values;
};

// --- reports to the coordinator ----------------------------------------------

struct LeafLoss {
  uint32_t virtual_rank = 0;
  double loss_sum = 0;
  uint32_t samples = 0;
};
struct LeafReport {
  Fence fence;
  RoleId worker;
  uint64_t step = 0; ///< async: the lease
  std::vector<LeafLoss> leaves;
};
/// Every slice of `owner` now holds `version`.
struct Applied {
  Fence fence;
  RoleId owner;
  uint64_t version = 0;
  uint64_t duplicates = 0; ///< pushes dropped so far by this process
  // Replica: gradients of this step, as they travelled and before compression.
  uint64_t sent_bytes = 0, plain_bytes = 0;
};
struct LeaseRequest {
  Fence fence;
  RoleId worker;
  uint32_t count = 0;
};
struct LeaseGrant {
  Fence fence;
  std::vector<uint64_t> leases;
};
struct LeaseApplied {
  Fence fence;
  RoleId shard;
  uint64_t lease = 0;
  uint64_t duplicates = 0;
};
/// Parameters and optimizer state of one slice at one version.
struct SnapshotSlice {
  uint64_t job = 0;
  uint64_t version = 0;
  uint32_t slice = 0;
  TensorView values;
  std::vector<TensorView> state;
};
/// Async: send the snapshot of whatever you hold, marked `version`.
struct SnapshotRequest {
  Fence fence;
  uint64_t version = 0;
};
/// Begin no further step; answer with Paused.
struct Pause {
  Fence fence;
};
struct Paused {
  Fence fence;
  RoleId worker;
  uint64_t next_step = 0; ///< first step it has not begun
};
/// The run ends before `step`; owners send their snapshot of that version.
struct EndAt {
  Fence fence;
  uint64_t step = 0;
};
struct Finish { ///< all is done: the role ends
  uint64_t job = 0;
};
/// The role cannot go on and a restart would not help: one line for the user.
struct Trouble {
  uint64_t job = 0;
  RoleId role;
  std::string line;
};
struct MetricsReport {
  RoleId role;
  uint64_t peak_memory_bytes = 0; ///< of its process; 0: not its own
  std::vector<MetricSample> samples;
};

// --- evaluation --------------------------------------------------------------

struct Evaluate {
  uint64_t job = 0;
  uint64_t version = 0;
  uint32_t slice = 0;
  uint32_t slices = 0; ///< how many make the whole
  TensorView values;
};
struct Measure { ///< loss, accuracy, auc or perplexity
  std::string name;
  double value = 0;
};
struct Evaluation {
  uint64_t job = 0;
  uint64_t version = 0;
  uint64_t samples = 0;
  std::vector<Measure> measures; ///< the loss comes first
};

// --- supervision and observers -----------------------------------------------

/// A node supervisor or an observer asks to be kept informed.
struct Attach {
  bool supervises = false;
};
struct Detach {}; ///< the observer has seen the end and goes
struct RoleDied {
  RoleId role;
  std::string how;
};
/// To supervisors: that member is left out; end it and start another.
struct ReplaceRole {
  RoleId role;
  std::string reason;
};
/// A supervisor will not start the role again.
struct GiveUp {
  std::string line;
};
struct Progress {
  uint64_t step = 0;
  uint64_t total = 0;
  double loss = 0;
  double samples_per_second = 0;
  double steps_per_second = 0;
};
/// An epoch of data is committed and, where it is due, evaluated.
struct EpochEnd {
  uint64_t data_epoch = 0; ///< from 1
  uint64_t step = 0;
  double loss = 0; ///< mean over the epoch's samples
  double samples_per_second = 0;
  std::vector<Measure> evaluation; ///< empty: not evaluated
};
/// A line worth showing: an address, a recovery, a restart.
struct Note {
  std::string line;
};
struct Finished {
  int32_t status = 0;  ///< exit status
  std::string line;    ///< the one line of a failure, or what was saved
  std::string summary; ///< JSON, empty on failure
};
/// Ctrl-C: end at the next possible step and save.
struct StopRequest {
  std::string why;
};

/// Work that an executor finished for the actor that submitted it; stays in
/// the process.
struct Completion {
  std::function<void()> then;
};

#define TROUPE_INSPECT(Type, ...) \
  template <class Inspector> \
  bool inspect(Inspector& f, Type& x) { \
    return f.object(x).fields(__VA_ARGS__); \
  }
#define TROUPE_FIELD(name) f.field(#name, x.name)

template <class Inspector>
bool inspect(Inspector& f, RoleId& x) {
  auto kind = static_cast<uint8_t>(x.kind);
  auto ok = f.object(x).fields(f.field("kind", kind),
                               f.field("index", x.index));
  x.kind = static_cast<RoleKind>(kind);
  return ok && kind <= static_cast<uint8_t>(RoleKind::evaluator);
}
template <class Inspector>
bool inspect(Inspector& f, MetricSample& x) {
  auto kind = static_cast<uint8_t>(x.kind);
  auto ok = f.object(x).fields(
    f.field("kind", kind), f.field("name", x.name), f.field("help", x.help),
    f.field("labels", x.labels), f.field("value", x.value),
    f.field("bounds", x.bounds), f.field("cumulative", x.cumulative),
    f.field("sum", x.sum));
  x.kind = static_cast<MetricSample::Kind>(kind);
  return ok && kind <= static_cast<uint8_t>(MetricSample::Kind::histogram);
}
TROUPE_INSPECT(RankRange, TROUPE_FIELD(lo), TROUPE_FIELD(hi))
TROUPE_INSPECT(Fence, TROUPE_FIELD(job), TROUPE_FIELD(term),
               TROUPE_FIELD(epoch))
TROUPE_INSPECT(Hello, TROUPE_FIELD(role), TROUPE_FIELD(revision))
TROUPE_INSPECT(JobInfo, TROUPE_FIELD(job), TROUPE_FIELD(incarnation),
               TROUPE_FIELD(options))
TROUPE_INSPECT(Join, TROUPE_FIELD(job), TROUPE_FIELD(role),
               TROUPE_FIELD(incarnation), TROUPE_FIELD(endpoint),
               TROUPE_FIELD(build), TROUPE_FIELD(probe), TROUPE_FIELD(links))
TROUPE_INSPECT(Propose, TROUPE_FIELD(fence))
TROUPE_INSPECT(SliceState, TROUPE_FIELD(slice), TROUPE_FIELD(oldest),
               TROUPE_FIELD(newest), TROUPE_FIELD(held),
               TROUPE_FIELD(lease_floor), TROUPE_FIELD(leases_above))
TROUPE_INSPECT(Sealed, TROUPE_FIELD(fence), TROUPE_FIELD(role),
               TROUPE_FIELD(incarnation), TROUPE_FIELD(slices),
               TROUPE_FIELD(version))
TROUPE_INSPECT(Member, TROUPE_FIELD(role), TROUPE_FIELD(endpoint),
               TROUPE_FIELD(links))
TROUPE_INSPECT(Activate, TROUPE_FIELD(fence), TROUPE_FIELD(members),
               TROUPE_FIELD(version), TROUPE_FIELD(rollback),
               TROUPE_FIELD(slices), TROUPE_FIELD(synchronise),
               TROUPE_FIELD(source))
TROUPE_INSPECT(Pull, TROUPE_FIELD(fence), TROUPE_FIELD(worker),
               TROUPE_FIELD(version))
TROUPE_INSPECT(Pulled, TROUPE_FIELD(fence), TROUPE_FIELD(version),
               TROUPE_FIELD(slice), TROUPE_FIELD(values))
TROUPE_INSPECT(Push, TROUPE_FIELD(fence), TROUPE_FIELD(step),
               TROUPE_FIELD(node), TROUPE_FIELD(slice), TROUPE_FIELD(values))
TROUPE_INSPECT(LeasePush, TROUPE_FIELD(fence), TROUPE_FIELD(lease),
               TROUPE_FIELD(slice), TROUPE_FIELD(pulled_version),
               TROUPE_FIELD(values), TROUPE_FIELD(scale))
TROUPE_INSPECT(BlockSums, TROUPE_FIELD(fence), TROUPE_FIELD(step),
               TROUPE_FIELD(round), TROUPE_FIELD(slice), TROUPE_FIELD(sums))
TROUPE_INSPECT(Scalars, TROUPE_FIELD(fence), TROUPE_FIELD(step),
               TROUPE_FIELD(round), TROUPE_FIELD(values))
TROUPE_INSPECT(LeafLoss, TROUPE_FIELD(virtual_rank), TROUPE_FIELD(loss_sum),
               TROUPE_FIELD(samples))
TROUPE_INSPECT(LeafReport, TROUPE_FIELD(fence), TROUPE_FIELD(worker),
               TROUPE_FIELD(step), TROUPE_FIELD(leaves))
TROUPE_INSPECT(Applied, TROUPE_FIELD(fence), TROUPE_FIELD(owner),
               TROUPE_FIELD(version), TROUPE_FIELD(duplicates),
               TROUPE_FIELD(sent_bytes), TROUPE_FIELD(plain_bytes))
TROUPE_INSPECT(LeaseRequest, TROUPE_FIELD(fence), TROUPE_FIELD(worker),
               TROUPE_FIELD(count))
TROUPE_INSPECT(LeaseGrant, TROUPE_FIELD(fence), TROUPE_FIELD(leases))
TROUPE_INSPECT(LeaseApplied, TROUPE_FIELD(fence), TROUPE_FIELD(shard),
               TROUPE_FIELD(lease), TROUPE_FIELD(duplicates))
TROUPE_INSPECT(SnapshotSlice, TROUPE_FIELD(job), TROUPE_FIELD(version),
               TROUPE_FIELD(slice), TROUPE_FIELD(values), TROUPE_FIELD(state))
TROUPE_INSPECT(SnapshotRequest, TROUPE_FIELD(fence), TROUPE_FIELD(version))
TROUPE_INSPECT(Pause, TROUPE_FIELD(fence))
TROUPE_INSPECT(Paused, TROUPE_FIELD(fence), TROUPE_FIELD(worker),
               TROUPE_FIELD(next_step))
TROUPE_INSPECT(EndAt, TROUPE_FIELD(fence), TROUPE_FIELD(step))
TROUPE_INSPECT(Finish, TROUPE_FIELD(job))
TROUPE_INSPECT(Trouble, TROUPE_FIELD(job), TROUPE_FIELD(role),
               TROUPE_FIELD(line))
TROUPE_INSPECT(MetricsReport, TROUPE_FIELD(role),
               TROUPE_FIELD(peak_memory_bytes), TROUPE_FIELD(samples))
TROUPE_INSPECT(Evaluate, TROUPE_FIELD(job), TROUPE_FIELD(version),
               TROUPE_FIELD(slice), TROUPE_FIELD(slices), TROUPE_FIELD(values))
TROUPE_INSPECT(Measure, TROUPE_FIELD(name), TROUPE_FIELD(value))
TROUPE_INSPECT(Evaluation, TROUPE_FIELD(job), TROUPE_FIELD(version),
               TROUPE_FIELD(samples), TROUPE_FIELD(measures))
TROUPE_INSPECT(Attach, TROUPE_FIELD(supervises))
template <class Inspector>
bool inspect(Inspector& f, Detach& x) {
  return f.object(x).fields();
}
TROUPE_INSPECT(LinkLost, TROUPE_FIELD(fence), TROUPE_FIELD(role),
               TROUPE_FIELD(reason))
TROUPE_INSPECT(RoleDied, TROUPE_FIELD(role), TROUPE_FIELD(how))
TROUPE_INSPECT(ReplaceRole, TROUPE_FIELD(role), TROUPE_FIELD(reason))
TROUPE_INSPECT(GiveUp, TROUPE_FIELD(line))
TROUPE_INSPECT(Progress, TROUPE_FIELD(step), TROUPE_FIELD(total),
               TROUPE_FIELD(loss), TROUPE_FIELD(samples_per_second),
               TROUPE_FIELD(steps_per_second))
TROUPE_INSPECT(EpochEnd, TROUPE_FIELD(data_epoch), TROUPE_FIELD(step),
               TROUPE_FIELD(loss), TROUPE_FIELD(samples_per_second),
               TROUPE_FIELD(evaluation))
TROUPE_INSPECT(Note, TROUPE_FIELD(line))
TROUPE_INSPECT(Finished, TROUPE_FIELD(status), TROUPE_FIELD(line),
               TROUPE_FIELD(summary))
TROUPE_INSPECT(StopRequest, TROUPE_FIELD(why))

#undef TROUPE_INSPECT
#undef TROUPE_FIELD

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
CAF_ADD_TYPE_ID(troupe, (troupe::EpochEnd))
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
CAF_END_TYPE_ID_BLOCK(troupe)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Completion)
