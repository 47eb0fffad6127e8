#include "actors/worker/dense_reduced_worker.hpp"

#include "actors/job/beginning.hpp"
#include "actors/replica/group_member.hpp"
#include "actors/replica/lock_step.hpp"
#include "actors/worker/dense_steps.hpp"
#include "actors/worker/worker_base.hpp"
#include "kernels/base/error.hpp"
#include "strategies/dense_reduced_steps.hpp"
#include "strategies/free_rows.hpp"

#include <utility>

namespace troupe {
namespace {

/// Performs what its steps ask for (strategies/dense_reduced_steps.hpp). An
/// epoch begins with the group of its workers, and dense variables of its
/// version, before there is a step.
class DenseReducedWorkerState : WorkerBase {
public:
  static inline const char* name = "dense-reduced-worker";

  DenseReducedWorkerState(worker_actor::pointer self, RoleContext context)
    : WorkerBase(self, std::move(context)),
      wait_(context_.metrics->histogram(metrics::all_reduce_wait_seconds)),
      steps_(nodes_),
      dense_(context_, *executor_),
      member_(self, context_, gate_, outbox_, executor_, dense_),
      rows_(job_, context_.data.train, context_.memory()),
      arrived_(job_.plan.slices.size()),
      pulled_(job_.plan.slices.size()) {}

  ~DenseReducedWorkerState() {
    dense_.group().abort(to_string(context_.role) + " has ended");
    executor_.reset(); // its task uses what is destroyed after it
  }

  worker_actor::behavior_type make_behavior() {
    return behavior([this](const auto& x) { on(x); });
  }

private:
  // --- epochs ---------------------------------------------------------------

  /// Seals when the executor is done: then what was computed and summed stands.
  void on(const Propose& proposal) {
    if (!gate_.propose(proposal.fence))
      return;
    steps_.seal();
    pause_.begin();
    reports_.send_again(self_, context_, proposal.committed);
    member_.leave(
      proposal.fence, [this] { return dense_.held(); },
      [this, fence = proposal.fence](std::vector<SliceState>& held) {
        seal(fence, std::move(held));
      });
  }

  void on(const Activate& activation) {
    connect(activation, [this, activation] { meet(activation); });
  }

  /// The workers of the epoch form a group.
  void meet(const Activate& activation) {
    dense_.begin_epoch(start_of(activation, context_.role));
    GroupWish wish;
    wish.fence = activation.fence;
    wish.layout = dense_.layout();
    wish.arrays = dense_.arrays();
    wish.members = computing_members(activation);
    member_.meet(std::move(wish),
                 [this,
                  activation](const std::shared_ptr<ReplicaGroup>& group) {
                   enter(activation, group);
                 });
  }

  void enter(const Activate& activation,
             const std::shared_ptr<ReplicaGroup>& group) {
    dense_.group().join(group);
    run_on(
      *executor_, self_, [this, activation] { return begin(activation); },
      [this, activation](StepOutcome& outcome) {
        if (gate_.is_pending(activation.fence)
            && member_.can_go_on(activation.fence, outcome))
          start_epoch(activation, outcome);
      });
  }

  /// Runs on the executor.
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
    open(activation, rows_);
    if (activation.rollback || dense_.share().held.empty())
      forget_step(); // undone, over, or given up
    const auto own = ranks_of(activation, context_.role);
    const auto ranks = job_.options.virtual_ranks;
    free_rows_ = activation.consistency.async;
    begin_nodes(activation, dense_.missing(),
                free_rows_ ? leaves_of(ranks) : job_.shares());
    DenseReducedSteps::Epoch epoch{activation.version, job_.total_steps};
    epoch.prefetches = free_rows_ && job_.prefetches();
    if (free_rows_ && !activation.rollback)
      epoch.lost = lost_leaves(leases_of(activation), epoch.version, own,
                               ranks);
    applied(epoch.version);
    member_.show(outcome.snapshot);
    missing_ = 0;
    perform(steps_.begin_epoch(std::move(epoch)));
    gate_.replay();
  }

  // --- what is to be done ---------------------------------------------------

  void perform(const DenseReducedSteps::Actions& actions) {
    for (const auto& action : actions)
      std::visit([this](const auto& x) { perform(x); }, action);
  }

  void perform(const DenseReducedSteps::NextStep&) {
    sums_.clear();
    pushes_.begin_step();
  }

  void perform(const DenseReducedSteps::Pull& pull) {
    const auto next = pull.version + 1;
    pull_rows({pull.version, nodes_.of(pull.version)}, {next, nodes_.of(next)});
  }

  void perform(const DenseReducedSteps::PullLost& pull) {
    pull_rows({pull.lost.step, pull.lost.leaves},
              {pull.version, nodes_.of(pull.version)});
  }

  void pull_rows(WorkerRows::Samples samples, WorkerRows::Samples following) {
    begin_pull();
    missing_ = 0;
    for (const auto& slice : job_.plan.slices) {
      arrived_[slice.id] = !slice.sparse();
      missing_ += slice.sparse() ? 1 : 0;
    }
    rows_.pull(*executor_, self_, shards_,
               {gate_.active(), context_.role, samples.step, 0, {}},
               std::move(samples), std::move(following));
  }

  void on(const Pulled& message) {
    if (!gate_.is_active(message.fence) || missing_ == 0
        || (!free_rows_ && message.version != steps_.wanted())
        || message.slice >= arrived_.size() || arrived_[message.slice]
        || !rows_.put(job_.plan.slices[message.slice], message.values,
                      dense_.parameters(steps_.rows_beside())))
      return;
    arrived_[message.slice] = true;
    pulled_[message.slice] = message.version;
    metrics_.pulled.add(static_cast<double>(message.values.bytes()));
    context_.faults->pass(StepPhase::pull);
    if (--missing_ > 0)
      return;
    end_pull();
    pushes_.arrived();
    perform(steps_.rows_arrived());
  }

  void perform(const DenseReducedSteps::Compute& compute) {
    computed_on_ = pulled_;
    run_on(
      *executor_, self_,
      [this, step = compute.step, nodes = compute.nodes, rows = rows_.rows(),
       parameters = dense_.parameters(compute.step)] {
        return dense_.compute(step, [&](RankPeers* peers) {
          return slowed_([&] {
            return computer_.compute(step, nodes, parameters, rows, nullptr, {},
                                     nullptr, peers);
          });
        });
      },
      [this, fence = gate_.active()](StepOutcome& outcome) {
        if (gate_.is_active(fence))
          member_.can_go_on(fence, outcome);
        record_waits(context_, outcome);
        if (!outcome.gradient.abandoned)
          on_computed(std::move(outcome.gradient));
      });
    metrics_.queue.set(static_cast<double>(executor_->queued()));
    context_.faults->pass(StepPhase::compute);
  }

  void on_computed(StepGradient&& result) {
    if (!is_sound(result))
      return;
    report(result);
    hold(std::move(result.nodes));
    perform(steps_.computed());
  }

  void perform(const DenseReducedSteps::Finish& finish) {
    const auto step = finish.step;
    if (free_rows_)
      push_leases(step, sums_, computed_on_);
    else
      pushes_.push_missing(self_, gate_.active(), step, sums_);
    run_on(
      *executor_, self_,
      [this, step, sums = sums_, end = steps_.end()] {
        return dense_.take(step, sums, end);
      },
      [this, fence = gate_.active()](StepOutcome& outcome) {
        member_.show(outcome.snapshot);
        if (!gate_.is_active(fence) || !member_.can_go_on(fence, outcome))
          return;
        wait_.observe(outcome.wait_seconds);
        context_.record(Activity::reduce, outcome.wait_seconds, 0);
        applied(outcome.version, outcome.traffic);
        if (outcome.version == steps_.end() && outcome.snapshot.empty())
          member_.show_end();
        perform(steps_.reduced(outcome.version));
      });
  }

  void applied(uint64_t version, const Reducer::Traffic& traffic = {}) {
    self_->send(context_.coordinator,
                Applied{gate_.active(), context_.role, version, 0,
                        traffic.sent_bytes, traffic.plain_bytes});
  }

  // --- rows that run free ---------------------------------------------------

  /// Each leaf is a lease. What a slice has already it drops.
  void push_leases(uint64_t step, const std::vector<NodeSum>& leaves,
                   const std::vector<uint64_t>& versions) {
    for (const auto& slice : job_.plan.slices)
      if (slice.sparse())
        for (const auto& leaf : leaves)
          pushes_.send(
            self_, LeasePush{gate_.active(),
                             step * job_.options.virtual_ranks + leaf.node.lo,
                             slice.id, versions[slice.id],
                             pushed_values(job_, leaf, slice), 1});
  }

  void perform(const DenseReducedSteps::ComputeLost& compute) {
    run_on(
      *executor_, self_,
      [this, lost = compute.lost, rows = rows_.rows(),
       parameters = dense_.parameters(compute.version)] {
        return computer_.compute(lost.step, lost.leaves, parameters, rows);
      },
      [this, fence = gate_.active()](StepGradient& result) {
        if (!gate_.is_active(fence) || !is_sound(result))
          return;
        report(result);
        push_leases(result.step, result.nodes, pulled_);
        perform(steps_.lost_computed());
      });
  }

  // --- ending early ---------------------------------------------------------

  void on(const Pause&) {
    steps_.pause();
    report_paused(steps_.next_step());
  }

  void on(const SnapshotRequest& request) { member_.want(request); }

  void on(const LeaseGrant&) {}

  void on(const EndAt& end) {
    const auto actions = steps_.end_at(end.step);
    perform(actions);
    if (actions.empty() && steps_.version() == end.step)
      member_.show_end();
  }

  Histogram& wait_;
  bool free_rows_ = false; ///< in this epoch
  DenseReducedSteps steps_;
  DenseSteps dense_;
  GroupMember<worker_actor::pointer, DenseSteps> member_;
  WorkerRows rows_;
  std::vector<bool> arrived_;         ///< by slice
  std::vector<uint64_t> pulled_;      ///< by slice: versions of the rows here
  std::vector<uint64_t> computed_on_; ///< those of the step in hand
  size_t missing_ = 0;                ///< slices whose rows are still to come
};

} // namespace

worker_actor spawn_dense_reduced_worker(caf::actor_system& system,
                                        RoleContext context) {
  return system.spawn<worker_actor::stateful_impl<DenseReducedWorkerState>>(
    std::move(context));
}

} // namespace troupe
