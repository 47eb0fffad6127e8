#pragma once

#include "actors/epoch_pause.hpp"
#include "actors/leaf_computer.hpp"
#include "actors/link_terms.hpp"
#include "actors/links/link_proxy.hpp"
#include "actors/peer_directory.hpp"
#include "actors/role_frame.hpp"
#include "actors/slowed.hpp"
#include "actors/step_holdings.hpp"
#include "actors/worker_metrics.hpp"
#include "actors/worker_pushes.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What all workers of parameter_server have, whoever keeps the dense
/// variables: the way into an epoch and out of it, links to shards, an executor
/// that computes leaves, and what is held of the step.
class WorkerFrame {
protected:
  using Clock = std::chrono::steady_clock;

  WorkerFrame(worker_actor::pointer self, RoleContext context)
    : self_(self),
      context_(std::move(context)),
      job_(*context_.job),
      metrics_(*context_.metrics),
      shards_(self->system(),
              {context_.links, context_.role, link_terms(job_, context_.role)}),
      pause_(*context_.metrics),
      slowed_(job_.options, context_.role.index, context_.faults),
      end_(job_.total_steps),
      executor_(make_role_executor(context_)),
      computer_(context_.job, context_.data.train, *executor_,
                parse_device(job_.device_of(context_.role)), context_.memory(),
                context_.faults),
      pushes_(context_, shards_, metrics_) {}

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
      [handle](const Pulled& x) { handle(x); },
      [handle](const LeaseGrant& x) { handle(x); });
    on_lost_peer(self_, context_.coordinator, [this](const caf::down_msg& x) {
      if (auto shard = shards_.forget(x.source))
        ask_for_links(self_, context_, gate_, *shard, why_link_ended(x.reason));
    });
    return behavior;
  }

  /// Says what this worker holds: of the slices that it keeps, and of its step.
  void seal(const Fence& fence, std::vector<SliceState> kept) {
    self_->send(context_.coordinator,
                Sealed{fence, context_.role, context_.incarnation,
                       std::move(kept), step_.step(), step_.nodes()});
    context_.faults->pass(StepPhase::seal);
  }

  /// Calls then() when the shards of the epoch are linked, once, if it is still
  /// being sealed.
  template <class Then>
  void connect(const Activate& activation, Then then) {
    if (!gate_.enter(activation.fence))
      return;
    if (const auto why = unlinkable(job_, context_.role, activation.members);
        !why.empty()) {
      trouble(why);
      return;
    }
    shards_.connect(
      self_, activation.fence, activation.members, RoleKind::shard,
      [this, fence = activation.fence, then] {
        if (gate_.is_sealing(fence))
          then();
      },
      [this](RoleId shard, const std::string& line) {
        ask_for_links(self_, context_, gate_, shard, line);
      });
  }

  /// The epoch is active: nothing ends it early yet, and slices are pushed and
  /// pulled along its chains, rows of `rows` among them.
  void open(const Activate& activation, WorkerRows& rows) {
    gate_.open();
    pause_.end(self_, context_, activation.fence);
    const auto chains = chains_of(activation, job_.plan);
    pushes_.begin_epoch(heads_of(chains), activation.slices);
    rows.route(heads_of(chains), tails_of(chains));
    paused_ = false;
    end_ = job_.total_steps;
  }

  void trouble(const std::string& line) {
    self_->send(context_.coordinator,
                Trouble{context_.job_id, context_.role, line});
  }

  /// Returns whether it can be gone on with; else the job is told why not.
  bool is_sound(const StepGradient& result) {
    metrics_.computed(result.seconds, result.computed_twice);
    if (!result.trouble.empty())
      trouble(result.trouble);
    return result.trouble.empty();
  }

  void report(const StepGradient& its) {
    self_->send(context_.coordinator,
                LeafReport{gate_.sealing(), context_.role, its.step, its.leaves,
                           pushes_.take_seconds(), its.computed_twice});
  }

  void report_paused(uint64_t next_step) {
    paused_ = true;
    self_->send(context_.coordinator,
                Paused{gate_.active(), context_.role, next_step});
  }

  worker_actor::pointer self_;
  RoleContext context_;
  const Job& job_;
  WorkerMetrics metrics_;
  PeerDirectory shards_;
  EpochGate gate_;
  EpochPauseWatch pause_;
  const Slowed slowed_;
  uint64_t end_; ///< the version that the run ends at
  bool paused_ = false;
  StepHoldings step_;
  std::shared_ptr<Executor> executor_;
  LeafComputer computer_;
  WorkerPushes pushes_;
};

} // namespace troupe
