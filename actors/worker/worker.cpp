#include "actors/worker/worker.hpp"

#include "actors/compute/lease_gradient.hpp"
#include "actors/compute/push_packing.hpp"
#include "actors/worker/frame.hpp"
#include "actors/worker/pulled_parameters.hpp"
#include "strategies/lease_pipeline.hpp"

#include <chrono>
#include <utility>

namespace troupe {
namespace {

/// Bounds the pushes of leases that wait: a worker that computes faster than a
/// link takes them would fill its memory.
constexpr uint64_t most_queued_bytes = uint64_t{32} << 20;
constexpr std::chrono::milliseconds queue_look_period{2};

///            Activate                 all slices          computed
///   sealed ------------> pulling ----------------> computing -------> pushed
///      ^                    ^                                           |
///      |                    +-------------------------------------------+
///      +---- Propose (from anywhere)         pulls version s + 1
///
/// The executor begins with the first slices of a synchronous step already and
/// waits at a gate for the others (`begun_`). That is arithmetic alone: what is
/// held, pushed and said is as if it began when all slices are there.
class WorkerState : WorkerFrame {
public:
  static inline const char* name = "worker";

  WorkerState(worker_actor::pointer self, RoleContext context)
    : WorkerFrame(self, std::move(context)),
      packing_(job_),
      leases_(job_.prefetches()),
      parameters_(job_, context_.data.train, context_.memory()) {}

  /// The executor's task reads what is destroyed after it; but not executor_,
  /// which is null from here on: tasks have a reference.
  ~WorkerState() {
    give_up_begun();
    executor_.reset();
  }

  worker_actor::behavior_type make_behavior() {
    return behavior([this](const auto& x) { on(x); });
  }

private:
  enum class Phase { sealed, pulling, computing, idle };
  // --- epochs ---------------------------------------------------------------

  void on(const Propose& proposal) {
    if (!gate_.propose(proposal.fence))
      return;
    give_up_begun();
    phase_ = Phase::sealed;
    pause_.begin();
    seal(proposal.fence, {});
  }

  void on(const Activate& activation) {
    connect(activation, [this, activation] {
      start_epoch(activation);
      gate_.replay();
    });
  }

  void start_epoch(const Activate& activation) {
    open(activation, parameters_.rows());
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
    step_.begin_epoch(activation.version, ranks_of(activation, context_.role),
                      activation.missing, job_.shares(),
                      job_.options.virtual_ranks);
    if (computing_ && computing_step_ == activation.version) {
      phase_ = Phase::computing;
      return;
    }
    push_missing();
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
    give_up_begun(); // k of n: of a version that is gone
    wanted_ = version;
    pull_begin_ = Clock::now();
    parameters_.begin(computing_); // the executor still reads the old ones
    shards_.for_each<shard_actor>([&](const shard_actor& shard) {
      self_->send(shard, Pull{gate_.active(), context_.role, version});
    });
    const auto next = leases_.following().value_or(version + 1);
    parameters_.rows().pull(*executor_, self_, shards_,
                            {gate_.active(), context_.role, version, 0, {}},
                            samples_of(version),
                            samples_of(async_ ? next : version + 1));
  }

  /// The samples of a step or, asynchronously, of a lease.
  WorkerRows::Samples samples_of(uint64_t version) const {
    if (!async_)
      return {version, step_.nodes_of(version)};
    const auto ranks = job_.options.virtual_ranks;
    const auto rank = static_cast<uint32_t>(version % ranks);
    return {version / ranks, {{rank, rank + 1}}};
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
    if (!parameters_.complete()) {
      begin_early();
      return;
    }
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
    if (wanted_ < end_ && !paused_) {
      compute();
      return;
    }
    give_up_begun();
    phase_ = Phase::idle;
  }

  /// Begins with the first slices, if what they are for is known.
  void begin_early() {
    const auto& nodes = step_.nodes_of(wanted_);
    if (async_ || computing_ || !job_.begins_early() || paused_
        || wanted_ >= end_ || nodes.empty() || parameters_.gate()->abandoned()
        || (!job_.tables.empty() && !parameters_.rows().rows()))
      return;
    begun_ = true;
    start(wanted_, nodes, parameters_.gate());
  }

  void give_up_begun() {
    if (!std::exchange(begun_, false))
      return;
    parameters_.give_up();
    computing_ = false;
    ++turn_;
  }

  /// The version that the rest of this step needs, or the next one.
  void pull_next() { pull(step_.step() + (step_.anything_left() ? 0 : 1)); }

  void compute() {
    if (!step_.anything_left()) { // others have all of it
      pull_next();
      return;
    }
    phase_ = Phase::computing;
    const auto& nodes = step_.compute();
    if (begun_ && parameters_.gate()->abandoned())
      give_up_begun(); // it has waited too long
    if (!std::exchange(begun_, false))
      start(step_.step(), nodes, nullptr);
    context_.faults->pass(StepPhase::compute);
  }

  /// `gate` null: all parameters are there.
  void start(uint64_t step, const std::vector<RankRange>& nodes,
             std::shared_ptr<ParameterGate> gate) {
    computing_ = true;
    computing_step_ = step;
    auto parameters = parameters_.buffer();
    const auto turn = ++turn_;
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
        if (turn == turn_)
          on_computed(std::move(result));
      });
    metrics_.queue.set(static_cast<double>(executor_->queued()));
  }

  /// The executor tells of each bucket as it becomes final.
  NodesReady when_ready(uint64_t turn) {
    auto self = caf::actor_cast<caf::strong_actor_ptr>(self_);
    return
      [this, self, turn](uint32_t bucket, const std::vector<NodeSum>& sums) {
        Completion final{[this, turn, bucket, sums] {
          if (turn == turn_ && phase_ == Phase::computing
              && !step_.anything_left())
            pushes_.push_bucket(self_, gate_.active(), step_.step(),
                                step_.sums_with(sums), bucket);
        }};
        caf::anon_send(caf::actor_cast<caf::actor>(self), std::move(final));
      };
  }

  void on_computed(StepGradient&& result) {
    computing_ = false;
    if (result.abandoned) { // it has waited too long: for the rest without it
      begun_ = false;
      return;
    }
    if (!is_sound(result))
      return;
    report(result);
    if (result.step == step_.step())
      step_.computed(std::move(result.nodes));
    if (phase_ != Phase::computing)
      return; // sealed meanwhile: the next epoch decides what is sent
    push_missing();
    pull_next();
  }

  /// Once it has all of its nodes: they leave together (WorkerPushes).
  void push_missing() {
    if (!step_.anything_left())
      pushes_.push_missing(self_, gate_.active(), step_.step(), step_.sums());
  }

  // --- ending early ---------------------------------------------------------

  void on(const Pause&) {
    give_up_begun();
    report_paused(phase_ == Phase::computing ? computing_step_ + 1 : wanted_);
  }

  void on(const SnapshotRequest&) {}

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
    if (shards_.queued_bytes() > most_queued_bytes)
      look_at_queues();
    else if (const auto lease = leases_.pull())
      pull(*lease);
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
    computing_ = true;
    const auto lease = *granted;
    const auto ranks = job_.options.virtual_ranks;
    const auto rank = static_cast<uint32_t>(lease % ranks);
    auto parameters = parameters_.buffer();
    computing_step_ = ~uint64_t{0}; // of no step
    const auto turn = ++turn_;
    run_on(
      *executor_, self_,
      [this, &executor = *executor_, lease, rank, ranks, parameters,
       rows = parameters_.rows().rows()] {
        LeaseGradient done;
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
    if (!is_sound(gradient))
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
    leases_.computed();
    compute_lease();
    next_lease();
  }

  bool async_ = false; ///< in this epoch
  uint64_t period_ = 0;
  Phase phase_ = Phase::sealed;

  uint64_t wanted_ = 0; ///< version being pulled
  Clock::time_point pull_begin_;

  bool computing_ = false;
  bool begun_ = false; ///< what it computes still lacks slices
  uint64_t computing_step_ = 0;
  uint64_t turn_ = 0; ///< counts computations; an older one's result is void

  PushPacking packing_;
  LeasePipeline leases_;
  bool looking_ = false; ///< until there is room in the links' queues
  PulledParameters parameters_;
};

} // namespace

worker_actor spawn_worker(caf::actor_system& system, RoleContext context) {
  return system.spawn<worker_actor::stateful_impl<WorkerState>>(
    std::move(context));
}

} // namespace troupe
