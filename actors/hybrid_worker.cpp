#include "actors/hybrid_worker.hpp"

#include "actors/beginning.hpp"
#include "actors/dense_steps.hpp"
#include "actors/epoch_pause.hpp"
#include "actors/leaf_computer.hpp"
#include "actors/link_terms.hpp"
#include "actors/links/link_proxy.hpp"
#include "actors/peer_directory.hpp"
#include "actors/replica_meeting.hpp"
#include "actors/role_frame.hpp"
#include "actors/slowed.hpp"
#include "actors/step_holdings.hpp"
#include "actors/worker_metrics.hpp"
#include "actors/worker_pushes.hpp"
#include "kernels/error.hpp"

#include <chrono>
#include <utility>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

///         Activate           begun            rows and dense variables
///   sealed -------> entering ------> pulling -------------------------> idle
///      ^                              ^   |                              |
///      |          summed, rows pushed |   | rows and dense variables     |
///      |                              |   v                    EndAt     |
///      +---- Propose            computing  <-----------------------------+
///            (from anywhere)
class HybridWorkerState {
public:
  static inline const char* name = "hybrid-worker";

  HybridWorkerState(worker_actor::pointer self, RoleContext context)
    : self_(self),
      context_(std::move(context)),
      job_(*context_.job),
      metrics_(*context_.metrics),
      wait_(context_.metrics->histogram(metrics::all_reduce_wait_seconds)),
      shards_(self->system(),
              {context_.links, context_.role, link_terms(job_, context_.role)}),
      pause_(*context_.metrics),
      slowed_(job_.options, context_.role.index, context_.faults),
      end_(job_.total_steps),
      executor_(make_role_executor(context_)),
      computer_(context_.job, context_.data.train, *executor_,
                parse_device(job_.device_of(context_.role)), context_.memory()),
      dense_(context_, *executor_),
      pushes_(context_, shards_, metrics_),
      rows_(job_, context_.data.train, context_.memory()),
      arrived_(job_.plan.slices.size()) {}

  ~HybridWorkerState() {
    dense_.abort(to_string(context_.role) + " has ended");
    executor_.reset(); // its task uses what is destroyed after it
  }

  worker_actor::behavior_type make_behavior() {
    auto behavior = role_behavior(
      self_, context_, [this](const Propose& x) { on(x); },
      [this](const Activate& x) { on(x); },
      [this](const Pause& x) { gate_.admit(x.fence, [this, x] { on(x); }); },
      [this](const EndAt& x) { gate_.admit(x.fence, [this, x] { on(x); }); },
      [this](const SnapshotRequest& x) {
        if (gate_.is_active(x.fence) || gate_.is_sealing(x.fence))
          dense_.want(x.version);
      },
      [this](const Pulled& x) { on(x); }, [](const LeaseGrant&) {});
    on_lost_peer(self_, context_.coordinator, [this](const caf::down_msg& x) {
      if (auto shard = shards_.forget(x.source))
        ask_for_links(self_, context_, gate_, *shard, why_link_ended(x.reason));
    });
    return behavior;
  }

private:
  enum class Phase { sealed, pulling, computing, idle };

  // --- epochs ---------------------------------------------------------------

  /// Seals when the executor is done: then what was computed and summed stands.
  void on(const Propose& proposal) {
    if (!gate_.propose(proposal.fence))
      return;
    phase_ = Phase::sealed;
    pause_.begin();
    dense_.abort("the epoch has ended");
    run_on(
      *executor_, self_, [this] { return dense_.held(); },
      [this, fence = proposal.fence](std::vector<SliceState>& held) {
        if (!gate_.is_sealing(fence))
          return;
        self_->send(context_.coordinator,
                    Sealed{fence, context_.role, context_.incarnation,
                           std::move(held), step_.step(), step_.nodes()});
        context_.faults->pass(StepPhase::seal);
      });
  }

  void on(const Activate& activation) {
    if (!gate_.is_sealing(activation.fence))
      return;
    if (const auto why = unlinkable(job_, context_.role, activation.members);
        !why.empty()) {
      trouble(why);
      return;
    }
    shards_.connect(
      self_, activation.fence, activation.members, RoleKind::shard,
      [this, activation] {
        if (gate_.is_sealing(activation.fence))
          meet(activation);
      },
      [this](RoleId shard, const std::string& line) {
        ask_for_links(self_, context_, gate_, shard, line);
      });
  }

  /// The workers of the epoch form a group.
  void meet(const Activate& activation) {
    dense_.begin_epoch(start_of(activation, context_.role));
    GroupWish wish;
    wish.fence = activation.fence;
    wish.layout = dense_.layout();
    wish.arrays = dense_.arrays();
    wish.members = computing_members(activation);
    form_group(
      self_, *context_.groups, std::move(wish),
      [this, fence = activation.fence](uint32_t rank,
                                       const std::string& reason) {
        if (gate_.sealing() == fence) // else it is of another group
          dense_.lost(rank, reason);
      },
      [this, activation](const std::shared_ptr<ReplicaGroup>& group) {
        enter(activation, group);
      });
  }

  void enter(const Activate& activation,
             const std::shared_ptr<ReplicaGroup>& group) {
    if (!gate_.is_sealing(activation.fence))
      return;
    if (!group->error.empty()) {
      if (group->hopeless)
        trouble(group->error);
      else
        lost(activation.fence, group->error);
      return;
    }
    dense_.join(group);
    run_on(
      *executor_, self_, [this, activation] { return begin(activation); },
      [this, activation](StepOutcome& outcome) {
        if (gate_.is_sealing(activation.fence)
            && can_go_on(activation.fence, outcome))
          start_epoch(activation, outcome);
      });
  }

  /// On the executor.
  StepOutcome begin(const Activate& activation) {
    StepOutcome outcome;
    try {
      if (activation.rollback)
        dense_.reset(beginning_at(job_, activation.checkpoint));
    } catch (const InputError& failure) {
      outcome.trouble = failure.what();
      return outcome;
    }
    outcome = dense_.begin(
      activation.version,
      activation.synchronise ? std::optional{activation.source} : std::nullopt);
    // Who is gone may have taken its share of a snapshot along.
    if (outcome.taken && job_.is_snapshot_version(outcome.version))
      outcome.snapshot = dense_.snapshot();
    return outcome;
  }

  void start_epoch(const Activate& activation, StepOutcome& outcome) {
    gate_.open();
    pause_.end(self_, context_, activation.fence);
    const auto chains = chains_of(activation, job_.plan);
    pushes_.begin_epoch(heads_of(chains), activation.slices);
    rows_.route(heads_of(chains), tails_of(chains));
    paused_ = false;
    end_ = job_.total_steps;
    version_ = activation.version;
    RankRange own;
    for (const auto& worker : activation.ranks)
      if (worker.worker == context_.role)
        own = worker.ranks;
    if (activation.rollback || dense_.share().held.empty())
      step_.forget(); // undone, over, or given up
    step_.begin_epoch(version_, own, dense_.missing(), job_.shares(),
                      job_.options.virtual_ranks);
    applied();
    show(outcome.snapshot);
    if (version_ < end_ && !step_.anything_left())
      finish_step(); // it has all its sums already
    else
      pull(version_);
    gate_.replay();
  }

  void trouble(const std::string& line) {
    self_->send(context_.coordinator,
                Trouble{context_.job_id, context_.role, line});
  }

  /// This epoch leads nowhere.
  void lost(const Fence& fence, const std::string& reason) {
    self_->send(context_.coordinator, LinkLost{fence, context_.role, reason});
  }

  bool can_go_on(const Fence& fence, const StepOutcome& outcome) {
    if (!outcome.trouble.empty())
      trouble(outcome.trouble);
    else if (!outcome.failure.empty())
      lost(fence, outcome.failure);
    return outcome.taken;
  }

  // --- a step ---------------------------------------------------------------

  void pull(uint64_t version) {
    phase_ = Phase::pulling;
    wanted_ = version;
    pull_begin_ = Clock::now();
    missing_ = 0;
    for (const auto& slice : job_.plan.slices) {
      arrived_[slice.id] = !slice.sparse();
      missing_ += slice.sparse() ? 1 : 0;
    }
    rows_.pull(*executor_, self_, shards_,
               {gate_.active(), context_.role, version, 0, {}}, step_,
               version + 1);
  }

  void on(const Pulled& message) {
    if (!gate_.is_active(message.fence) || phase_ != Phase::pulling
        || message.version != wanted_ || message.slice >= arrived_.size()
        || arrived_[message.slice]
        || !rows_.put(job_.plan.slices[message.slice], message.values,
                      dense_.parameters(wanted_)))
      return;
    arrived_[message.slice] = true;
    metrics_.pulled.add(static_cast<double>(message.values.bytes()));
    context_.faults->pass(StepPhase::pull);
    if (--missing_ > 0)
      return;
    metrics_.pull.observe(seconds_since(pull_begin_));
    pushes_.arrived();
    go_on();
  }

  /// Where rows and dense variables are there: the step before is over, and
  /// nobody asks for what was computed of it.
  void go_on() {
    if (phase_ != Phase::pulling || missing_ > 0 || version_ != wanted_)
      return;
    if (wanted_ != step_.step()) {
      step_.begin_step(wanted_);
      pushes_.begin_step();
    }
    if (wanted_ < end_ && !paused_)
      compute();
    else
      phase_ = Phase::idle;
  }

  void compute() {
    phase_ = Phase::computing;
    run_on(
      *executor_, self_,
      [this, step = step_.step(), nodes = step_.compute(), rows = rows_.rows(),
       parameters = dense_.parameters(step_.step())] {
        return slowed_(
          [&] { return computer_.compute(step, nodes, parameters, rows); });
      },
      [this](StepGradient& result) { on_computed(std::move(result)); });
    metrics_.queue.set(static_cast<double>(executor_->queued()));
    context_.faults->pass(StepPhase::compute);
  }

  void on_computed(StepGradient&& result) {
    metrics_.compute.observe(result.seconds);
    if (!result.trouble.empty()) {
      trouble(result.trouble);
      return;
    }
    self_->send(context_.coordinator,
                LeafReport{gate_.sealing(), context_.role, result.step,
                           result.leaves, pushes_.take_seconds()});
    step_.computed(std::move(result.nodes));
    if (phase_ == Phase::computing)
      finish_step();
    // Else it was sealed meanwhile: the next epoch decides what is sent.
  }

  /// Rows go to their shards, and come back as the next version; the dense sums
  /// to the group meanwhile.
  void finish_step() {
    const auto step = step_.step();
    pushes_.push_missing(self_, gate_.active(), step, step_.sums());
    run_on(
      *executor_, self_,
      [this, step, sums = step_.sums(), end = end_] {
        return dense_.take(step, sums, end);
      },
      [this, fence = gate_.active()](StepOutcome& outcome) {
        show(outcome.snapshot);
        if (!gate_.is_active(fence) || !can_go_on(fence, outcome))
          return;
        version_ = outcome.version;
        wait_.observe(outcome.wait_seconds);
        applied(outcome.traffic);
        if (version_ == end_ && outcome.snapshot.empty())
          show_end();
        go_on();
      });
    pull(step + 1);
  }

  void applied(const Reducer::Traffic& traffic = {}) {
    self_->send(context_.coordinator,
                Applied{gate_.active(), context_.role, version_, 0,
                        traffic.sent_bytes, traffic.plain_bytes});
  }

  void show(const std::vector<SnapshotSlice>& slices) {
    for (const auto& slice : slices)
      self_->send(context_.coordinator, slice);
  }

  // --- ending early ---------------------------------------------------------

  void on(const Pause&) {
    paused_ = true;
    const auto next = phase_ == Phase::computing ? step_.step() + 1 : wanted_;
    self_->send(context_.coordinator,
                Paused{gate_.active(), context_.role, next});
  }

  void on(const EndAt& end) {
    end_ = end.step;
    paused_ = false;
    if (phase_ == Phase::idle && wanted_ < end_)
      compute();
    else if (version_ == end_)
      show_end();
  }

  /// The run ends at what is here: the step to it did not know.
  void show_end() {
    run_on(
      *executor_, self_, [this] { return dense_.snapshot(); },
      [this](const std::vector<SnapshotSlice>& slices) { show(slices); });
  }

  worker_actor::pointer self_;
  RoleContext context_;
  const Job& job_;
  WorkerMetrics metrics_;
  Histogram& wait_;
  PeerDirectory shards_;
  EpochGate gate_;
  EpochPauseWatch pause_;
  Phase phase_ = Phase::sealed;
  const Slowed slowed_;
  uint64_t end_;
  bool paused_ = false;

  uint64_t version_ = 0; ///< of the dense variables
  uint64_t wanted_ = 0;  ///< version of the rows being pulled
  Clock::time_point pull_begin_;
  StepHoldings step_;

  std::shared_ptr<Executor> executor_;
  LeafComputer computer_;
  DenseSteps dense_;
  WorkerPushes pushes_;
  WorkerRows rows_;
  std::vector<bool> arrived_; ///< by slice
  size_t missing_ = 0;
};

} // namespace

worker_actor spawn_hybrid_worker(caf::actor_system& system,
                                 RoleContext context) {
  return system.spawn<worker_actor::stateful_impl<HybridWorkerState>>(
    std::move(context));
}

} // namespace troupe
