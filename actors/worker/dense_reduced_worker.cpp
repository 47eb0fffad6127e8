#include "actors/worker/dense_reduced_worker.hpp"

#include "actors/job/beginning.hpp"
#include "actors/replica/dense_steps.hpp"
#include "actors/replica/group_member.hpp"
#include "actors/worker/worker_base.hpp"
#include "kernels/base/error.hpp"
#include "strategies/free_rows.hpp"

#include <utility>

namespace troupe {
namespace {

///         Activate           begun            rows and dense variables
///   sealed -------> entering ------> waiting -------------------------> idle
///      ^                              ^   |                              |
///      |          summed, rows pushed |   | rows and dense variables     |
///      |                              |   v                    EndAt     |
///      +---- Propose            computing  <-----------------------------+
///            (from anywhere)
///
/// Rows that run free (strategies/free_rows.hpp) are pulled for the next step
/// while this one is computed, and first of all rows that the epochs before
/// have lost are computed once more.
class DenseReducedWorkerState : WorkerBase {
public:
  static inline const char* name = "dense-reduced-worker";

  DenseReducedWorkerState(worker_actor::pointer self, RoleContext context)
    : WorkerBase(self, std::move(context)),
      wait_(context_.metrics->histogram(metrics::all_reduce_wait_seconds)),
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
  enum class Phase { sealed, repairing, waiting, computing, idle };

  // --- epochs ---------------------------------------------------------------

  /// Seals when the executor is done: then what was computed and summed stands.
  void on(const Propose& proposal) {
    if (!gate_.propose(proposal.fence))
      return;
    phase_ = Phase::sealed;
    pause_.begin();
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
        if (gate_.is_sealing(activation.fence)
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
    paused_ = false;
    end_ = job_.total_steps;
    version_ = activation.version;
    if (activation.rollback || dense_.share().held.empty())
      forget_step(); // undone, over, or given up
    const auto own = ranks_of(activation, context_.role);
    const auto ranks = job_.options.virtual_ranks;
    free_rows_ = activation.consistency.async;
    begin_nodes(activation, dense_.missing(),
                free_rows_ ? leaves_of(ranks) : job_.shares());
    lost_.clear();
    if (free_rows_ && !activation.rollback)
      lost_ = lost_leaves(leases_of(activation), version_, own, ranks);
    applied();
    member_.show(outcome.snapshot);
    wanted_ = ~uint64_t{0}; // what was pulled before is of the old epoch
    missing_ = 0;
    begin_first_step();
    gate_.replay();
  }

  void begin_first_step() {
    if (!lost_.empty())
      repair();
    else if (version_ < end_ && !nodes_.anything_left())
      finish_step(); // it has all its sums already
    else
      pull(version_);
  }

  // --- a step ---------------------------------------------------------------

  void pull(uint64_t version) {
    phase_ = Phase::waiting;
    pull_rows({version, nodes_.of(version)},
              {version + 1, nodes_.of(version + 1)});
  }

  void pull_rows(WorkerRows::Samples samples, WorkerRows::Samples following) {
    wanted_ = samples.step;
    pull_begin_ = Clock::now();
    missing_ = 0;
    for (const auto& slice : job_.plan.slices) {
      arrived_[slice.id] = !slice.sparse();
      missing_ += slice.sparse() ? 1 : 0;
    }
    rows_.pull(*executor_, self_, shards_,
               {gate_.active(), context_.role, wanted_, 0, {}},
               std::move(samples), std::move(following));
  }

  /// Where the rows that are pulled are read: beside the dense variables that
  /// they are computed with.
  float* place_of_rows() const {
    return dense_.parameters(phase_ == Phase::repairing ? version_ : wanted_);
  }

  void on(const Pulled& message) {
    if (!gate_.is_active(message.fence) || missing_ == 0
        || (!free_rows_ && message.version != wanted_)
        || message.slice >= arrived_.size() || arrived_[message.slice]
        || !rows_.put(job_.plan.slices[message.slice], message.values,
                      place_of_rows()))
      return;
    arrived_[message.slice] = true;
    pulled_[message.slice] = message.version;
    metrics_.pulled.add(static_cast<double>(message.values.bytes()));
    context_.faults->pass(StepPhase::pull);
    if (--missing_ > 0)
      return;
    metrics_.pull.observe(seconds_since(pull_begin_));
    pushes_.arrived();
    if (phase_ == Phase::repairing)
      compute_lost();
    else
      go_on();
  }

  /// Where rows and dense variables are there: the step before is over, and
  /// nobody asks for what was computed of it.
  void go_on() {
    if (phase_ != Phase::waiting || missing_ > 0 || version_ != wanted_)
      return;
    if (wanted_ != nodes_.step()) {
      sums_.clear();
      nodes_.begin_step(wanted_);
      pushes_.begin_step();
    }
    if (wanted_ < end_ && !paused_)
      compute();
    else
      phase_ = Phase::idle;
  }

  void compute() {
    phase_ = Phase::computing;
    computed_on_ = pulled_;
    run_on(
      *executor_, self_,
      [this, step = nodes_.step(), nodes = nodes_.compute(),
       rows = rows_.rows(), parameters = dense_.parameters(nodes_.step())] {
        return slowed_(
          [&] { return computer_.compute(step, nodes, parameters, rows); });
      },
      [this](StepGradient& result) { on_computed(std::move(result)); });
    metrics_.queue.set(static_cast<double>(executor_->queued()));
    context_.faults->pass(StepPhase::compute);
    if (const auto next = nodes_.step() + 1; free_rows_ && job_.prefetches())
      pull_rows({next, nodes_.of(next)}, {next + 1, nodes_.of(next + 1)});
  }

  void on_computed(StepGradient&& result) {
    if (!is_sound(result))
      return;
    report(result);
    hold(std::move(result.nodes));
    if (phase_ == Phase::computing)
      finish_step();
    // Otherwise it was sealed meanwhile: the next epoch decides what is sent.
  }

  /// Rows go to their shards, and come back as the next version; the dense sums
  /// to the group meanwhile.
  void finish_step() {
    phase_ = Phase::waiting;
    const auto step = nodes_.step();
    if (free_rows_)
      push_leases(step, sums_, computed_on_);
    else
      pushes_.push_missing(self_, gate_.active(), step, sums_);
    run_on(
      *executor_, self_,
      [this, step, sums = sums_, end = end_] {
        return dense_.take(step, sums, end);
      },
      [this, fence = gate_.active()](StepOutcome& outcome) {
        member_.show(outcome.snapshot);
        if (!gate_.is_active(fence) || !member_.can_go_on(fence, outcome))
          return;
        version_ = outcome.version;
        wait_.observe(outcome.wait_seconds);
        applied(outcome.traffic);
        if (version_ == end_ && outcome.snapshot.empty())
          member_.show_end();
        go_on();
      });
    if (wanted_ != step + 1)
      pull(step + 1);
  }

  void applied(const Reducer::Traffic& traffic = {}) {
    self_->send(context_.coordinator,
                Applied{gate_.active(), context_.role, version_, 0,
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

  /// The dense part of these steps is over: their rows are computed with the
  /// variables that there are now.
  void repair() {
    phase_ = Phase::repairing;
    const auto& first = lost_.front();
    pull_rows({first.step, first.leaves}, {version_, nodes_.of(version_)});
  }

  void compute_lost() {
    run_on(
      *executor_, self_,
      [this, lost = lost_.front(), rows = rows_.rows(),
       parameters = dense_.parameters(version_)] {
        return computer_.compute(lost.step, lost.leaves, parameters, rows);
      },
      [this, fence = gate_.active()](StepGradient& result) {
        if (!gate_.is_active(fence) || !is_sound(result))
          return;
        report(result);
        push_leases(result.step, result.nodes, pulled_);
        lost_.erase(lost_.begin());
        begin_first_step();
      });
  }

  // --- ending early ---------------------------------------------------------

  void on(const Pause&) {
    paused_ = true;
    report_paused(phase_ == Phase::computing   ? nodes_.step() + 1
                  : phase_ == Phase::repairing ? version_
                                               : wanted_);
  }

  void on(const SnapshotRequest& request) { member_.want(request); }

  void on(const LeaseGrant&) {}

  void on(const EndAt& end) {
    end_ = end.step;
    paused_ = false;
    if (phase_ == Phase::idle && wanted_ < end_)
      compute();
    else if (version_ == end_)
      member_.show_end();
  }

  Histogram& wait_;
  bool free_rows_ = false; ///< in this epoch
  Phase phase_ = Phase::sealed;
  uint64_t end_ = 0; ///< the version that the run ends at
  bool paused_ = false;
  uint64_t version_ = 0; ///< of the dense variables
  uint64_t wanted_ = 0;  ///< version of the rows being pulled
  Clock::time_point pull_begin_;
  DenseSteps dense_;
  GroupMember<worker_actor::pointer, DenseSteps> member_;
  WorkerRows rows_;
  std::vector<bool> arrived_;         ///< by slice
  std::vector<uint64_t> pulled_;      ///< by slice: versions of the rows here
  std::vector<uint64_t> computed_on_; ///< those of the step in hand
  size_t missing_ = 0;
  std::vector<LostLeaves> lost_; ///< of the epochs before
};

} // namespace

worker_actor spawn_dense_reduced_worker(caf::actor_system& system,
                                        RoleContext context) {
  return system.spawn<worker_actor::stateful_impl<DenseReducedWorkerState>>(
    std::move(context));
}

} // namespace troupe
