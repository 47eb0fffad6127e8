#include "actors/worker/worker.hpp"

#include "actors/compute/lease_gradient.hpp"
#include "actors/compute/push_packing.hpp"
#include "actors/replica/group_member.hpp"
#include "actors/worker/norm_group.hpp"
#include "actors/worker/pulled_parameters.hpp"
#include "actors/worker/worker_base.hpp"
#include "strategies/lease_pipeline.hpp"
#include "strategies/worker_steps.hpp"
#include "strategies/workers_meet.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace troupe {
namespace {

/// Bounds the pushes of leases that wait: a worker that computes faster than a
/// link takes them would fill its memory.
constexpr uint64_t max_queued_bytes = uint64_t{32} << 20;
constexpr std::chrono::milliseconds queue_look_period{2};

/// Does what WorkerSteps says, step by step, or takes one lease after the
/// other. Where ranks need sums of all others' in the middle of their passes,
/// an epoch begins with the group of its workers, and all compute a step, or
/// compute it again, at once.
class WorkerState : WorkerBase {
public:
  static inline const char* name = "worker";

  WorkerState(worker_actor::pointer self, RoleContext context)
    : WorkerBase(self, std::move(context)),
      steps_(nodes_, job_.begins_early() && !together_),
      packing_(job_),
      leases_(job_.prefetches()),
      parameters_(job_, context_.data.train, context_.memory()),
      norms_(context_),
      member_(self, context_, gate_, outbox_, executor_, norms_) {}

  /// The executor's task reads what is destroyed after it; but not executor_,
  /// which is null from here on: tasks have a reference.
  ~WorkerState() {
    perform(steps_.seal());
    norms_.group().abort(to_string(context_.role) + " has ended");
    if (context_.data.train) // some simulations need none
      context_.data.train->end_supply();
    executor_.reset();
  }

  worker_actor::behavior_type make_behavior() {
    return behavior([this](const auto& x) { on(x); });
  }

private:
  // --- epochs ---------------------------------------------------------------

  void on(const Propose& proposal) {
    if (together_)
      leave_group(proposal);
    else
      leave(proposal, [this] { perform(steps_.seal()); });
  }

  /// Seals when the executor is done, which waits for nobody any more.
  void leave_group(const Propose& proposal) {
    if (!gate_.propose(proposal.fence))
      return;
    perform(steps_.seal());
    pause_.begin();
    reports_.send_again(self_, context_, proposal.committed);
    member_.leave(
      proposal.fence, [] { return std::vector<SliceState>{}; },
      [this, fence = proposal.fence](std::vector<SliceState>& none) {
        seal(fence, std::move(none));
      });
  }

  void on(const Activate& activation) {
    if (together_)
      connect(activation, [this, activation] { meet(activation); });
    else
      enter(activation, [this](const Activate& x) { start_epoch(x); });
  }

  /// The workers of the epoch form a group.
  void meet(const Activate& activation) {
    member_.meet(norms_.begin_epoch(activation),
                 [this,
                  activation](const std::shared_ptr<ReplicaGroup>& group) {
                   norms_.group().join(group);
                   member_.begin();
                   start_epoch(activation);
                   gate_.replay();
                 });
  }

  void start_epoch(const Activate& activation) {
    open(activation, parameters_.rows());
    async_ = activation.consistency.async;
    if (std::exchange(period_, activation.consistency.period)
          != activation.consistency.period
        || activation.rollback || together_) {
      perform(steps_.forget());
      forget_step();
    }
    if (async_) {
      perform(steps_.forget()); // its lease was returned
      leases_.clear();
      lease_exchange_.clear();
      next_lease();
      return;
    }
    begin_nodes(activation, activation.missing, job_.shares());
    perform(steps_.begin_epoch(activation.version, job_.total_steps));
  }

  // --- what is to be done ---------------------------------------------------

  void perform(const WorkerSteps::Actions& actions) {
    for (const auto& action : actions)
      std::visit([this](const auto& x) { perform(x); }, action);
  }
  void perform(const WorkerSteps::GiveUp&) { parameters_.give_up(); }
  void perform(const WorkerSteps::Replace&) { parameters_.replace(); }
  void perform(const WorkerSteps::NextStep&) {
    sums_.clear();
    pushes_.begin_step();
  }

  void perform(const WorkerSteps::Pull& pull) {
    const auto version = pull.version;
    begin_pull();
    lease_exchange_.pull();
    parameters_.begin(pull.in_use);
    shards_.for_each<shard_actor>([&](const shard_actor& shard) {
      self_->send(shard, Pull{gate_.active(), context_.role, version});
    });
    const auto next = leases_.following().value_or(version + 1);
    parameters_.rows().pull(*executor_, self_, shards_,
                            {gate_.active(), context_.role, version, 0, {}},
                            samples_of(version),
                            samples_of(async_ ? next : version + 1));
  }

  void perform(const WorkerSteps::Begin& begin) {
    start(begin.step, begin.nodes, begin.turn, parameters_.gate());
  }

  void perform(const WorkerSteps::Compute& compute) {
    if (!compute.begun)
      start(compute.step, compute.nodes, compute.turn, nullptr);
    context_.faults->pass(StepPhase::compute);
  }

  /// They leave together (WorkerPushes).
  void perform(const WorkerSteps::Push&) {
    pushes_.push_missing(self_, gate_.active(), nodes_.step(), sums_);
  }

  // --- a synchronous step ---------------------------------------------------

  /// The samples of a step or, asynchronously, of a lease.
  WorkerRows::Samples samples_of(uint64_t version) const {
    if (!async_)
      return {version, nodes_.of(version)};
    const auto ranks = job_.options.virtual_ranks;
    const auto rank = static_cast<uint32_t>(version % ranks);
    return {version / ranks, {{rank, rank + 1}}};
  }

  void on(const Pulled& message) {
    const bool awaited = async_ ? leases_.pulling()
                                : steps_.awaits(message.version);
    if (!gate_.is_active(message.fence) || !awaited)
      return;
    if (!async_ && message.version > steps_.wanted()) {
      perform(steps_.overtaken(message.version));
      return;
    }
    if (!parameters_.take(message))
      return;
    metrics_.pulled.add(static_cast<double>(message.values.bytes()));
    context_.faults->pass(StepPhase::pull);
    const bool abandoned = parameters_.gate()->abandoned();
    if (!parameters_.complete()) {
      const bool has_rows = job_.tables.empty() || parameters_.rows().rows();
      if (!async_)
        perform(steps_.some_arrived(!abandoned && has_rows));
      return;
    }
    end_pull();
    if (async_) {
      lease_exchange_.pulled(metrics_.push);
      leases_.pulled();
      compute_lease();
      return;
    }
    pushes_.arrived();
    perform(steps_.all_arrived(abandoned));
  }

  /// `gate` null: all parameters are there.
  void start(uint64_t step, const std::vector<RankRange>& nodes, uint64_t turn,
             std::shared_ptr<ParameterGate> gate) {
    if (together_) {
      start_together(step, nodes, turn);
      return;
    }
    auto parameters = parameters_.buffer();
    run_on(
      *executor_, self_,
      [this, &executor = *executor_, step, nodes, parameters,
       gate = std::move(gate), rows = parameters_.rows().rows(),
       ready = when_ready(turn)] {
        return slowed_(
          [&] {
            auto done = computer_.compute(step, nodes, parameters->data(), rows,
                                          pushes_.early(), ready, gate.get());
            packing_.pack(done, executor);
            return done;
          },
          gate.get());
      },
      [this, turn](StepGradient& result) {
        if (steps_.current(turn))
          on_computed(std::move(result));
      });
    metrics_.queue.set(static_cast<double>(executor_->queued()));
  }

  void start_together(uint64_t step, const std::vector<RankRange>& nodes,
                      uint64_t turn) {
    run_on(
      *executor_, self_,
      [this, &executor = *executor_, step, nodes,
       parameters = parameters_.buffer(), rows = parameters_.rows().rows()] {
        return norms_.compute(step, [&](RankPeers* peers) {
          return slowed_([&] {
            auto done = computer_.compute(step, nodes, parameters->data(), rows,
                                          nullptr, {}, nullptr, peers);
            packing_.pack(done, executor);
            return done;
          });
        });
      },
      [this, turn, fence = gate_.active()](StepOutcome& outcome) {
        if (gate_.is_active(fence))
          member_.can_go_on(fence, outcome);
        record_waits(context_, outcome);
        if (steps_.current(turn))
          on_computed(std::move(outcome.gradient));
      });
    metrics_.queue.set(static_cast<double>(executor_->queued()));
  }

  /// The executor tells of each bucket as it becomes final.
  NodesReady when_ready(uint64_t turn) {
    auto self = caf::actor_cast<caf::strong_actor_ptr>(self_);
    return
      [this, self, turn](uint32_t bucket, const std::vector<NodeSum>& sums) {
        Completion final{[this, turn, bucket, sums] {
          if (steps_.pushes_early(turn))
            push_early(sums, bucket);
        }};
        caf::anon_send(caf::actor_cast<caf::actor>(self), std::move(final));
      };
  }

  void push_early(std::vector<NodeSum> sums, uint32_t bucket) {
    std::ranges::copy(sums_, std::back_inserter(sums));
    pushes_.push_bucket(self_, gate_.active(), nodes_.step(), sums, bucket);
  }

  void on_computed(StepGradient&& result) {
    if (!steps_.finished(result.abandoned) || !is_sound(result))
      return;
    report(result);
    if (result.step == nodes_.step())
      hold(std::move(result.nodes));
    perform(steps_.computed());
  }

  // --- ending early ---------------------------------------------------------

  void on(const Pause&) {
    perform(steps_.pause());
    report_paused(steps_.next_step());
  }

  void on(const SnapshotRequest&) {}

  void on(const EndAt& end) { perform(steps_.end_at(end.step)); }

  // --- asynchronous ---------------------------------------------------------

  void next_lease() {
    if (leases_.ask())
      self_->send(context_.coordinator,
                  LeaseRequest{gate_.active(), context_.role, lease_batch});
    if (shards_.queued_bytes() > max_queued_bytes)
      look_at_queues();
    else if (const auto lease = leases_.pull())
      perform(steps_.pull_lease(*lease));
  }

  void look_at_queues() {
    if (std::exchange(looking_, true))
      return;
    Completion later{[this] {
      looking_ = false;
      if (async_ && gate_.is_active())
        next_lease();
    }};
    self_->delayed_send(self_, queue_look_period, std::move(later));
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
    const auto lease = *granted;
    const auto ranks = job_.options.virtual_ranks;
    const auto rank = static_cast<uint32_t>(lease % ranks);
    auto parameters = parameters_.buffer();
    const auto turn = steps_.compute_lease();
    run_on(
      *executor_, self_,
      [this, &executor = *executor_, lease, rank, ranks, parameters,
       rows = parameters_.rows().rows(), next = leases_.following()] {
        LeaseGradient done;
        if (next) {
          const auto its = static_cast<uint32_t>(*next % ranks);
          computer_.expect(*next / ranks, {its, its + 1}, lease / ranks);
        }
        done.gradient = slowed_([&] {
          return computer_.compute(lease / ranks, {{rank, rank + 1}},
                                   parameters->data(), rows);
        });
        done.scale = push_scale(job_, &executor, done.gradient);
        packing_.pack(done.gradient, executor);
        return done;
      },
      [this, lease, turn,
       versions = parameters_.versions()](LeaseGradient& result) {
        if (steps_.current(turn))
          on_lease_computed(lease, versions, result);
      });
    context_.faults->pass(StepPhase::compute);
    next_lease();
  }

  void on_lease_computed(uint64_t lease, const std::vector<uint64_t>& versions,
                         const LeaseGradient& result) {
    const auto& gradient = result.gradient;
    if (!steps_.finished(gradient.abandoned) || !is_sound(gradient))
      return;
    if (!gate_.is_active())
      return; // sealed: the next epoch returns the lease
    self_->send(context_.coordinator,
                LeafReport{gate_.active(), context_.role, lease,
                           gradient.leaves, 0, gradient.computed_twice});
    for (const auto& slice : job_.plan.slices)
      pushes_.send(
        self_, LeasePush{gate_.active(), lease, slice.id, versions[slice.id],
                         pushed_values(job_, gradient.nodes.front(), slice),
                         result.scale});
    lease_exchange_.pushed();
    leases_.computed();
    compute_lease();
    next_lease();
  }

  /// At norms alone.
  const bool together_ = workers_meet(job_.plan, job_.goes_in_lock_step());
  bool async_ = false; ///< in this epoch
  uint64_t period_ = 0;
  WorkerSteps steps_;

  PushPacking packing_;
  LeasePipeline leases_;
  LeaseExchange lease_exchange_;
  bool looking_ = false; ///< until there is room in the links' queues
  PulledParameters parameters_;
  NormGroup norms_;
  GroupMember<worker_actor::pointer, NormGroup> member_;
};

} // namespace

worker_actor spawn_worker(caf::actor_system& system, RoleContext context) {
  return system.spawn<worker_actor::stateful_impl<WorkerState>>(
    std::move(context));
}

} // namespace troupe
