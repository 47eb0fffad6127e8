#pragma once

#include "actors/wire/messages/fields.hpp"
#include "actors/wire/tensor_view.hpp"
#include "monitoring/metrics.hpp"

#include <string>
#include <vector>

/// What members report to the coordinator, and what it answers.
namespace troupe {

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

/// What a virtual rank's micro-batch gave. Units: nats, summed over samples.
struct LeafLoss {
  uint32_t virtual_rank = 0;
  double loss_sum = 0;
  uint32_t samples = 0;
};
/// A worker, or replica, has computed leaves of a step.
struct LeafReport {
  Fence fence;
  RoleId worker;
  uint64_t step = 0; ///< async: the lease
  std::vector<LeafLoss> leaves;
  /// How long the exchange of the step before took: from its first push to the
  /// last slice of the version that it made; 0: not known.
  double exchange_seconds = 0;
  /// The gradient had values that are not finite, and none the second time.
  bool computed_twice = false;
  /// Said before, perhaps to a coordinator that is gone.
  bool again = false;
};
/// Every slice of `owner` now holds `version`.
struct Applied {
  Fence fence;
  RoleId owner;
  uint64_t version = 0;
  uint64_t duplicates = 0; ///< pushes dropped so far by this process
  // Replica: gradients of this step, as they travelled and before compression.
  uint64_t sent_bytes = 0, plain_bytes = 0;
  /// Rows that run free: steps that the ones read so far lacked at most.
  uint64_t max_behind = 0;
};
/// A worker asks for leases; they come as LeaseGrant, sooner or later.
struct LeaseRequest {
  Fence fence;
  RoleId worker;
  uint32_t count = 0;
};
/// These are the worker's until they are consumed, or the epoch ends.
struct LeaseGrant {
  Fence fence;
  std::vector<uint64_t> leases;
};
/// Every slice that the shard is the tail of has applied the lease.
struct LeaseApplied {
  Fence fence;
  RoleId shard;
  uint64_t lease = 0;
  uint64_t duplicates = 0;
};
/// A push was older than --reject-stale allows and had no effect: its lease is
/// to be computed again.
struct LeaseRefused {
  Fence fence;
  RoleId shard;
  uint64_t lease = 0;
};
/// Begin no further step; answer with Paused.
struct Pause {
  Fence fence;
};
/// The answer: so far it has begun.
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
/// A sign of life; once a second with the role's metrics.
struct MetricsReport {
  RoleId role;
  uint64_t peak_memory_bytes = 0; ///< of its process; 0: not its own
  std::vector<MetricSample> samples;
  /// A worker's step waits for samples, for longer than usual: of whom.
  bool awaits_samples = false;
  std::vector<RoleId> readers{}; ///< empty: nobody could be asked
};

TROUPE_INSPECT(LeafLoss, TROUPE_FIELD(virtual_rank), TROUPE_FIELD(loss_sum),
               TROUPE_FIELD(samples))
TROUPE_INSPECT(LeafReport, TROUPE_FIELD(fence), TROUPE_FIELD(worker),
               TROUPE_FIELD(step), TROUPE_FIELD(leaves),
               TROUPE_FIELD(exchange_seconds), TROUPE_FIELD(computed_twice),
               TROUPE_FIELD(again))
TROUPE_INSPECT(Applied, TROUPE_FIELD(fence), TROUPE_FIELD(owner),
               TROUPE_FIELD(version), TROUPE_FIELD(duplicates),
               TROUPE_FIELD(sent_bytes), TROUPE_FIELD(plain_bytes),
               TROUPE_FIELD(max_behind))
TROUPE_INSPECT(LeaseRequest, TROUPE_FIELD(fence), TROUPE_FIELD(worker),
               TROUPE_FIELD(count))
TROUPE_INSPECT(LeaseGrant, TROUPE_FIELD(fence), TROUPE_FIELD(leases))
TROUPE_INSPECT(LeaseApplied, TROUPE_FIELD(fence), TROUPE_FIELD(shard),
               TROUPE_FIELD(lease), TROUPE_FIELD(duplicates))
TROUPE_INSPECT(LeaseRefused, TROUPE_FIELD(fence), TROUPE_FIELD(shard),
               TROUPE_FIELD(lease))
TROUPE_INSPECT(Pause, TROUPE_FIELD(fence))
TROUPE_INSPECT(Paused, TROUPE_FIELD(fence), TROUPE_FIELD(worker),
               TROUPE_FIELD(next_step))
TROUPE_INSPECT(EndAt, TROUPE_FIELD(fence), TROUPE_FIELD(step))
TROUPE_INSPECT(Finish, TROUPE_FIELD(job))
TROUPE_INSPECT(Trouble, TROUPE_FIELD(job), TROUPE_FIELD(role),
               TROUPE_FIELD(line))
TROUPE_INSPECT(MetricsReport, TROUPE_FIELD(role),
               TROUPE_FIELD(peak_memory_bytes), TROUPE_FIELD(samples),
               TROUPE_FIELD(awaits_samples), TROUPE_FIELD(readers))

} // namespace troupe
