#include "actors/worker.hpp"

#include "actors/epoch_pause.hpp"
#include "actors/leaf_computer.hpp"
#include "actors/lease_gradient.hpp"
#include "actors/link_terms.hpp"
#include "actors/links/link_proxy.hpp"
#include "actors/peer_directory.hpp"
#include "actors/pulled_parameters.hpp"
#include "actors/push_packing.hpp"
#include "actors/role_frame.hpp"
#include "actors/slowed.hpp"
#include "actors/step_holdings.hpp"
#include "actors/worker_metrics.hpp"
#include "actors/worker_pushes.hpp"
#include "strategies/lease_pipeline.hpp"

#include <chrono>
#include <utility>

namespace troupe {
namespace {
using Clock = std::chrono::steady_clock;

///            Activate                 all slices          computed
///   sealed ------------> pulling ----------------> computing -------> pushed
///      ^                    ^                                           |
///      |                    +-------------------------------------------+
///      +---- Propose (from anywhere)         pulls version s + 1
class WorkerState {
public:
  static inline const char* name = "worker";

  WorkerState(worker_actor::pointer self, RoleContext context)
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
                parse_device(job_.device_of(context_.role)), context_.memory()),
      packing_(job_),
      pushes_(context_, shards_, metrics_),
      leases_(job_.prefetches()),
      parameters_(job_, context_.data.train, context_.memory()) {}

  /// The executor's task reads what is destroyed after it.
  ~WorkerState() { executor_.reset(); }

  worker_actor::behavior_type make_behavior() {
    // The wish to stop may come while the shards of a new epoch are still being
    // connected: it waits for its start.
    auto behavior = role_behavior(
      self_, context_, [this](const Propose& x) { on(x); },
      [this](const Activate& x) { on(x); },
      [this](const Pause& x) { gate_.admit(x.fence, [this, x] { on(x); }); },
      [this](const EndAt& x) { gate_.admit(x.fence, [this, x] { on(x); }); },
      [](const SnapshotRequest&) {}, [this](const Pulled& x) { on(x); },
      [this](const LeaseGrant& x) { on(x); });
    on_lost_peer(self_, context_.coordinator, [this](const caf::down_msg& x) {
      if (auto shard = shards_.forget(x.source))
        ask_for_links(self_, context_, gate_, *shard, why_link_ended(x.reason));
    });
    return behavior;
  }

private:
  enum class Phase { sealed, pulling, computing, idle };
  // --- epochs ---------------------------------------------------------------

  void on(const Propose& proposal) {
    if (!gate_.propose(proposal.fence))
      return;
    phase_ = Phase::sealed;
    pause_.begin();
    self_->send(context_.coordinator, Sealed{proposal.fence,
                                             context_.role,
                                             context_.incarnation,
                                             {},
                                             step_.step(),
                                             step_.nodes()});
    context_.faults->pass(StepPhase::seal);
  }

  void on(const Activate& activation) {
    if (!gate_.is_sealing(activation.fence))
      return;
    if (const auto why = unlinkable(job_, context_.role, activation.members);
        !why.empty()) {
      self_->send(context_.coordinator,
                  Trouble{context_.job_id, context_.role, why});
      return;
    }
    auto begin = [this, activation] {
      if (!gate_.is_sealing(activation.fence))
        return;
      start_epoch(activation);
      gate_.replay();
    };
    shards_.connect(self_, activation.fence, activation.members,
                    RoleKind::shard, begin,
                    [this](RoleId shard, const std::string& line) {
                      ask_for_links(self_, context_, gate_, shard, line);
                    });
  }

  void start_epoch(const Activate& activation) {
    gate_.open();
    pause_.end(self_, context_, activation.fence);
    const auto chains = chains_of(activation, job_.plan);
    pushes_.begin_epoch(heads_of(chains), activation.slices);
    parameters_.rows().route(heads_of(chains), tails_of(chains));
    paused_ = false;
    end_ = job_.total_steps;
    async_ = activation.consistency.async;
    if (std::exchange(period_, activation.consistency.period)
          != activation.consistency.period
        || activation.rollback) {
      forget_computation(); // of a step that is undone, or over
      step_.forget();
    }
    if (async_) {
      forget_computation(); // its lease was returned
      leases_.clear();
      next_lease();
      return;
    }
    for (const auto& own : activation.ranks)
      if (own.worker == context_.role)
        step_.begin_epoch(activation.version, own.ranks, activation.missing,
                          job_.shares(), job_.options.virtual_ranks);
    push_missing(step_.sums());
    if (computing_ && computing_step_ == activation.version)
      phase_ = Phase::computing;
    else
      pull_next();
  }

  void forget_computation() {
    ++turn_;
    if (std::exchange(computing_, false))
      parameters_.replace(); // the executor still reads them
  }

  // --- a synchronous step ---------------------------------------------------

  void pull(uint64_t version) {
    if (!async_)
      phase_ = Phase::pulling;
    wanted_ = version;
    pull_begin_ = Clock::now();
    parameters_.begin(computing_); // the executor still reads the old ones
    shards_.for_each<shard_actor>([&](const shard_actor& shard) {
      self_->send(shard, Pull{gate_.active(), context_.role, version});
    });
    parameters_.rows().pull(
      *executor_, self_, shards_,
      {gate_.active(), context_.role, version, 0, {}}, step_,
      async_ ? leases_.following().value_or(version + 1) : version + 1);
  }

  void on(const Pulled& message) {
    const bool awaited = async_ ? leases_.pulling() : phase_ == Phase::pulling;
    if (!gate_.is_active(message.fence) || !awaited
        || (!async_ && message.version < wanted_))
      return;
    if (!async_ && message.version > wanted_) {
      pull(message.version); // k of n: the others are past the one it wanted
      return;
    }
    if (!parameters_.take(message))
      return;
    metrics_.pulled.add(static_cast<double>(message.values.bytes()));
    context_.faults->pass(StepPhase::pull);
    if (!parameters_.complete())
      return;
    metrics_.pull.observe(seconds_since(pull_begin_));
    if (async_) {
      leases_.pulled();
      compute_lease();
      return;
    }
    // Version s + 1 everywhere proves that s is committed.
    pushes_.arrived();
    if (wanted_ != step_.step()) {
      step_.begin_step(wanted_);
      pushes_.begin_step();
    }
    if (wanted_ < end_ && !paused_)
      compute();
    else
      phase_ = Phase::idle;
  }

  /// The version that the rest of this step needs, or the next one.
  void pull_next() { pull(step_.step() + (step_.anything_left() ? 0 : 1)); }

  void compute() {
    if (!step_.anything_left()) { // others have all of it
      pull_next();
      return;
    }
    phase_ = Phase::computing;
    computing_ = true;
    computing_step_ = step_.step();
    auto parameters = parameters_.buffer();
    const auto turn = ++turn_;
    run_on(
      *executor_, self_,
      [this, step = computing_step_, parameters,
       rows = parameters_.rows().rows(), nodes = step_.compute(),
       ready = when_ready(turn)] {
        return slowed_([&] {
          auto done = computer_.compute(step, nodes, parameters->data(), rows,
                                        pushes_.early(), ready);
          packing_.pack(done, *executor_);
          return done;
        });
      },
      [this, turn](StepGradient& result) {
        if (turn == turn_)
          on_computed(std::move(result));
      });
    metrics_.queue.set(static_cast<double>(executor_->queued()));
    context_.faults->pass(StepPhase::compute);
  }

  /// The executor tells of each bucket as it becomes final.
  NodesReady when_ready(uint64_t turn) {
    auto self = caf::actor_cast<caf::strong_actor_ptr>(self_);
    return
      [this, self, turn](uint32_t bucket, const std::vector<NodeSum>& sums) {
        Completion final{[this, turn, bucket, sums] {
          if (turn == turn_ && phase_ == Phase::computing)
            pushes_.push_bucket(self_, gate_.active(), step_.step(), sums,
                                bucket);
        }};
        caf::anon_send(caf::actor_cast<caf::actor>(self), std::move(final));
      };
  }

  void on_computed(StepGradient&& result) {
    computing_ = false;
    metrics_.compute.observe(result.seconds);
    if (!result.trouble.empty()) {
      self_->send(context_.coordinator,
                  Trouble{context_.job_id, context_.role, result.trouble});
      return;
    }
    self_->send(context_.coordinator,
                LeafReport{gate_.sealing(), context_.role, result.step,
                           result.leaves, pushes_.take_seconds()});
    const auto sums = result.nodes;
    if (result.step == step_.step())
      step_.computed(std::move(result.nodes));
    if (phase_ != Phase::computing)
      return; // sealed meanwhile: the next epoch decides what is sent
    push_missing(sums);
    pull_next();
  }

  void push_missing(const std::vector<NodeSum>& sums) {
    pushes_.push_missing(self_, gate_.active(), step_.step(), sums);
  }

  // --- ending early ---------------------------------------------------------

  void on(const Pause&) {
    paused_ = true;
    uint64_t next = wanted_;
    if (phase_ == Phase::computing)
      next = computing_step_ + 1;
    self_->send(context_.coordinator,
                Paused{gate_.active(), context_.role, next});
  }

  void on(const EndAt& end) {
    end_ = end.step;
    paused_ = false;
    if (!async_ && phase_ == Phase::idle && wanted_ < end_)
      compute();
  }

  // --- asynchronous ---------------------------------------------------------

  void next_lease() {
    if (leases_.ask())
      self_->send(context_.coordinator,
                  LeaseRequest{gate_.active(), context_.role, lease_batch});
    if (const auto lease = leases_.pull())
      pull(*lease);
  }

  void on(const LeaseGrant& grant) {
    if (!gate_.is_active(grant.fence))
      return;
    leases_.granted(grant.leases);
    next_lease();
  }

  void compute_lease() {
    const auto granted = leases_.compute();
    if (!granted)
      return;
    computing_ = true;
    const auto lease = *granted;
    const auto ranks = job_.options.virtual_ranks;
    const auto rank = static_cast<uint32_t>(lease % ranks);
    auto parameters = parameters_.buffer();
    computing_step_ = ~uint64_t{0}; // of no step
    const auto turn = ++turn_;
    run_on(
      *executor_, self_,
      [this, lease, rank, ranks, parameters, rows = parameters_.rows().rows()] {
        LeaseGradient done;
        done.gradient = slowed_([&] {
          return computer_.compute(lease / ranks, {{rank, rank + 1}},
                                   parameters->data(), rows);
        });
        done.scale = push_scale(job_, executor_.get(), done.gradient);
        packing_.pack(done.gradient, *executor_);
        return done;
      },
      [this, lease, turn,
       versions = parameters_.versions()](LeaseGradient& result) {
        if (turn == turn_)
          on_lease_computed(lease, versions, result);
      });
    context_.faults->pass(StepPhase::compute);
    next_lease();
  }

  void on_lease_computed(uint64_t lease, const std::vector<uint64_t>& versions,
                         const LeaseGradient& result) {
    computing_ = false;
    const auto& gradient = result.gradient;
    metrics_.compute.observe(gradient.seconds);
    if (!gradient.trouble.empty()) {
      self_->send(context_.coordinator,
                  Trouble{context_.job_id, context_.role, gradient.trouble});
      return;
    }
    if (!gate_.is_active())
      return; // sealed: the next epoch returns the lease
    self_->send(context_.coordinator, LeafReport{gate_.active(), context_.role,
                                                 lease, gradient.leaves});
    for (const auto& slice : job_.plan.slices)
      pushes_.send(
        self_, LeasePush{gate_.active(), lease, slice.id, versions[slice.id],
                         pushed_values(job_, gradient.nodes.front(), slice),
                         result.scale});
    leases_.computed();
    compute_lease();
    next_lease();
  }

  worker_actor::pointer self_;
  RoleContext context_;
  const Job& job_;
  bool async_ = false; ///< in this epoch
  uint64_t period_ = 0;
  WorkerMetrics metrics_;
  PeerDirectory shards_;
  EpochGate gate_;
  EpochPauseWatch pause_;
  Phase phase_ = Phase::sealed;
  const Slowed slowed_;
  uint64_t end_;
  bool paused_ = false;

  uint64_t wanted_ = 0; ///< version being pulled
  Clock::time_point pull_begin_;

  bool computing_ = false;
  uint64_t computing_step_ = 0;
  uint64_t turn_ = 0; ///< counts computations; an older one's result is void
  StepHoldings step_;

  std::shared_ptr<Executor> executor_;
  LeafComputer computer_;
  PushPacking packing_;
  WorkerPushes pushes_;
  LeasePipeline leases_;
  PulledParameters parameters_;
};

} // namespace

worker_actor spawn_worker(caf::actor_system& system, RoleContext context) {
  return system.spawn<worker_actor::stateful_impl<WorkerState>>(
    std::move(context));
}

} // namespace troupe
