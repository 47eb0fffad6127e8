#pragma once

#include "actors/compute/leaf_computer.hpp"
#include "actors/compute/slowed.hpp"
#include "actors/control/peer_directory.hpp"
#include "actors/links/link_proxy.hpp"
#include "actors/role/behavior.hpp"
#include "actors/role/epoch_gate.hpp"
#include "actors/role/epoch_pause.hpp"
#include "actors/role/kept_reports.hpp"
#include "actors/role/link_terms.hpp"
#include "actors/role/snapshot_outbox.hpp"
#include "actors/worker/metrics.hpp"
#include "actors/worker/pushes.hpp"
#include "kernels/base/steady_clock.hpp"
#include "strategies/step_nodes.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What all workers beside shards have, whoever keeps the dense variables: the
/// way into an epoch and out of it, links to shards, an executor that computes
/// leaves, and what is held of the step.
class WorkerBase {
protected:
  using Clock = SteadyClock;

  WorkerBase(worker_actor::pointer self, RoleContext context);

  /// Calls handle(message) for each message of a worker. The wish to stop may
  /// come while the shards of a new epoch are still being connected: it waits
  /// for its start.
  template <class Handle>
  worker_actor::behavior_type behavior(Handle handle) {
    const auto when_active = [this, handle](const auto& x) {
      gate_.admit(x.fence, [handle, x] { handle(x); });
    };
    auto behavior = role_behavior(
      self_, context_, [handle](const Propose& x) { handle(x); },
      [handle](const Activate& x) { handle(x); },
      [when_active](const Pause& x) { when_active(x); },
      [when_active](const EndAt& x) { when_active(x); },
      [handle](const SnapshotRequest& x) { handle(x); },
      [this](const SnapshotTaken& x) { outbox_.took(x); },
      [handle](const Pulled& x) { handle(x); },
      [handle](const LeaseGrant& x) { handle(x); });
    on_lost_peer(self_, context_.coordinator, [this](const caf::down_msg& x) {
      if (auto shard = shards_.forget(x.source))
        ask_for_links(self_, context_, gate_, *shard, why_link_ended(x.reason));
    });
    return behavior;
  }

  /// Leaves the epoch at once, keeping no slices: stop() gives up what the
  /// next epoch cannot use, and what there is of the step is said.
  template <class Stop>
  void leave(const Propose& proposal, Stop stop) {
    if (!gate_.propose(proposal.fence))
      return;
    stop();
    pause_.begin();
    reports_.send_again(self_, context_, proposal.committed);
    seal(proposal.fence, {});
  }

  /// Calls start(activation) when the shards of the epoch are linked, which
  /// opens it; what came for it before that follows.
  template <class Start>
  void enter(const Activate& activation, Start start) {
    connect(activation, [this, activation, start = std::move(start)] {
      start(activation);
      gate_.replay();
    });
  }

  /// Says what this worker holds: of the slices that it keeps, and of its step.
  void seal(const Fence& fence, std::vector<SliceState> kept);

  /// Calls then() when the shards of the epoch are linked, once, if it is still
  /// being sealed.
  template <class Then>
  void connect(const Activate& activation, Then then) {
    if (!gate_.enter(activation.fence))
      return;
    outbox_.enter(activation.rollback);
    reports_.enter(activation.rollback);
    if (const auto why = unlinkable(job_, context_.role, activation.members);
        !why.empty()) {
      trouble(why);
      return;
    }
    shards_.connect(
      self_, activation.fence, activation.members, RoleKind::shard,
      [this, fence = activation.fence, then] {
        if (gate_.is_pending(fence))
          then();
      },
      [this](RoleId shard, const std::string& line) {
        ask_for_links(self_, context_, gate_, shard, line);
      });
  }

  /// The epoch is active: nothing ends it early yet, and slices are pushed and
  /// pulled along its chains, which are returned; rows of `rows` among them.
  std::vector<SliceChain> open(const Activate& activation);
  void open(const Activate& activation, WorkerRows& rows);

  /// What an epoch leaves to do of the step that it begins with: its `missing`
  /// ranks, where they are this worker's.
  void begin_nodes(const Activate& activation,
                   const std::vector<RankRange>& missing,
                   const std::vector<RankRange>& shares);
  /// The executor has computed what it was given of the step.
  void hold(std::vector<NodeSum> computed);
  /// All is undone: nothing of what there was of the step counts.
  void forget_step();

  /// Parameters, or rows, are asked for, and all of them are here.
  void begin_pull() { pull_begin_ = Clock::now(); }
  void end_pull();

  void trouble(const std::string& line);

  /// Returns whether it can be gone on with; else the job is told why not.
  bool is_sound(const StepGradient& result);

  void report(const StepGradient& its);

  void report_paused(uint64_t next_step);

  worker_actor::pointer self_;
  RoleContext context_;
  const Job& job_;
  WorkerMetrics metrics_;
  PeerDirectory shards_;
  EpochGate gate_;
  EpochPauseWatch pause_;
  SnapshotOutbox outbox_; ///< of what it keeps itself
  KeptReports reports_;
  const Slowed slowed_;
  StepNodes nodes_; ///< of the step: what is left to compute
  /// Computed of it here, and kept until it is known to be committed: who has
  /// lost them is sent them again.
  std::vector<NodeSum> sums_;
  std::shared_ptr<Executor> executor_;
  LeafComputer computer_;
  WorkerPushes pushes_;

private:
  Clock::time_point pull_begin_;
};

} // namespace troupe
