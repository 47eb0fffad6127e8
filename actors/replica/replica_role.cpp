#include "actors/replica/replica_role.hpp"

#include "actors/compute/data_metrics.hpp"
#include "actors/job/beginning.hpp"
#include "actors/replica/group_member.hpp"
#include "actors/replica/steps.hpp"
#include "actors/role/behavior.hpp"
#include "actors/role/epoch_gate.hpp"
#include "actors/role/kept_reports.hpp"
#include "actors/role/link_terms.hpp"
#include "actors/role/seal.hpp"
#include "actors/role/snapshot_outbox.hpp"
#include "kernels/base/error.hpp"
#include "monitoring/names.hpp"
#include "monitoring/supervision_names.hpp"

#include <utility>

namespace troupe {
namespace {

/// Turns that the executor has before it, the running one included: it goes on
/// by itself, so that no message is on the path of a step.
constexpr uint32_t max_turns = 2;

class ReplicaState {
public:
  static inline const char* name = "replica";

  ReplicaState(replica_actor::pointer self, RoleContext context)
    : self_(self),
      context_(std::move(context)),
      job_(*context_.job),
      compute_(context_.metrics->histogram(metrics::compute_duration_seconds)),
      data_(*context_.metrics),
      wait_(context_.metrics->histogram(metrics::all_reduce_wait_seconds)),
      sent_(context_.metrics->counter(metrics::all_reduce_bytes_total,
                                      {{"form", "sent"}})),
      plain_(context_.metrics->counter(metrics::all_reduce_bytes_total,
                                       {{"form", "plain"}})),
      queue_(context_.metrics->gauge(metrics::executor_queue_tasks)),
      twice_(
        context_.metrics->counter(metrics::gradients_computed_twice_total)),
      outbox_(snapshot_window(),
              [this](const SnapshotSlice& x) {
                self_->send(context_.coordinator, x);
              }),
      end_(job_.total_steps),
      executor_(make_role_executor(context_)),
      steps_(context_, *executor_),
      member_(self, context_, gate_, outbox_, executor_, steps_) {}

  ~ReplicaState() {
    steps_.group().abort(to_string(context_.role) + " has ended");
    if (context_.data.train) // some simulations need none
      context_.data.train->end_supply();
    executor_.reset(); // its task uses what is destroyed below
  }

  replica_actor::behavior_type make_behavior() {
    return role_behavior(
      self_, context_, [this](const Propose& x) { on(x); },
      [this](const Activate& x) { on(x); },
      [this](const Pause& x) { when_active(x); },
      [this](const EndAt& x) { when_active(x); },
      [this](const SnapshotRequest& x) { member_.want(x); },
      [this](const SnapshotTaken& x) { outbox_.took(x); });
  }

private:
  // --- epochs ---------------------------------------------------------------

  /// The wish to stop may come while the group of a new epoch is formed.
  template <class Message>
  void when_active(const Message& message) {
    gate_.admit(message.fence, [this, message] { on(message); });
  }

  void on(const Propose& proposal) {
    if (!gate_.propose(proposal.fence))
      return;
    member_.leave(
      proposal.fence,
      [this] {
        return std::pair{steps_.version(), steps_.held()};
      },
      [this, proposal](const auto& has) {
        reports_.send_again(self_, context_, proposal.committed);
        send_seal(self_, context_, proposal.fence, {}, has.first, has.second);
      });
  }

  void on(const Activate& activation) {
    if (!gate_.enter(activation.fence))
      return;
    outbox_.enter(activation.rollback);
    reports_.enter(activation.rollback);
    peers_.clear();
    GroupWish wish;
    wish.fence = activation.fence;
    wish.members = computing_members(activation);
    for (const auto& member : wish.members)
      peers_.push_back(member.role);
    if (steps_.alone()) {
      enter(activation, nullptr);
      return;
    }
    wish.layout = steps_.layout(start_of(activation, context_.role));
    wish.arrays = steps_.arrays();
    member_.meet(std::move(wish),
                 [this,
                  activation](const std::shared_ptr<ReplicaGroup>& group) {
                   show_links(*group);
                   enter(activation, group);
                 });
  }

  /// The group is there, if others are: all begin at the activation's version,
  /// and the epoch is active here once this replica has it.
  void enter(const Activate& activation,
             const std::shared_ptr<ReplicaGroup>& group) {
    paused_ = false;
    member_.begin();
    if (activation.rollback)
      end_ = job_.total_steps;
    run_on(
      *executor_, self_,
      [this, activation, group] {
        StepOutcome ready;
        ready.trouble = go_back(activation);
        if (!ready.trouble.empty())
          return ready;
        steps_.enter(group, start_of(activation, context_.role));
        ready.version = steps_.version();
        ready.taken = true;
        if (activation.synchronise)
          ready = steps_.synchronise(activation.version, activation.source);
        // Who is gone may have taken its share of a snapshot along.
        if (ready.taken && job_.is_snapshot_version(ready.version))
          ready.snapshot = steps_.snapshot();
        return ready;
      },
      [this, fence = activation.fence](StepOutcome& outcome) {
        if (!gate_.is_pending(fence))
          return;
        gate_.open();
        if (!member_.can_go_on(fence, outcome))
          return;
        version_ = begun_ = outcome.version;
        self_->send(context_.coordinator,
                    Applied{fence, context_.role, version_, 0, 0, 0});
        member_.show(outcome.snapshot);
        gate_.replay(); // first: a step past the end would wait for ever
        rest(!outcome.snapshot.empty());
      });
  }

  /// Runs on the executor. Returns why it cannot.
  std::string go_back(const Activate& activation) {
    if (!activation.rollback
        || (activation.checkpoint.empty()
            && activation.version != job_.first_step()))
      return {};
    try {
      steps_.reset(beginning_at(job_, activation.checkpoint));
      return {};
    } catch (const InputError& failure) {
      return failure.what();
    }
  }

  /// Tells over what each peer is reached.
  void show_links(const ReplicaGroup& group) {
    for (const auto& [peer, carrier] : links_)
      link_gauge(peer, carrier).set(0);
    links_.clear();
    for (uint32_t rank = 0; rank < group.carriers.size(); ++rank)
      if (peers_[rank] != context_.role)
        links_.emplace_back(to_string(peers_[rank]), group.carriers[rank]);
    for (const auto& [peer, carrier] : links_)
      link_gauge(peer, carrier).set(1);
  }

  Gauge& link_gauge(const std::string& peer, const std::string& carrier) {
    return context_.metrics->gauge(metrics::link_carrier,
                                   {{"peer", peer}, {"carrier", carrier}});
  }

  // --- a step ---------------------------------------------------------------

  void keep_busy() {
    while (turns_ < max_turns && !paused_ && begun_ < end_)
      turn();
  }

  void turn() {
    const auto step = begun_++;
    ++turns_;
    run_on(
      *executor_, self_,
      [this, step, end = end_] {
        auto outcome = steps_.take(step, end);
        if (context_.flight)
          record(step, outcome);
        return outcome;
      },
      [this, step, fence = gate_.active()](StepOutcome& outcome) {
        --turns_;
        finish_turn(step, fence, outcome);
      });
    queue_.set(static_cast<double>(executor_->queued()));
    context_.faults->pass(StepPhase::compute);
  }

  void finish_turn(uint64_t step, const Fence& fence, StepOutcome& outcome) {
    member_.show(outcome.snapshot);
    LeafReport report{fence, context_.role,
                      step,  outcome.gradient.leaves,
                      0,     outcome.gradient.computed_twice};
    if (!gate_.is_active(fence)) { // sealed meanwhile
      if (outcome.taken)
        reports_.keep(std::move(report));
      return;
    }
    if (!member_.can_go_on(fence, outcome)) // or a step before it was not taken
      return;
    version_ = outcome.version;
    compute_.observe(outcome.gradient.seconds);
    data_.took(outcome.gradient.data);
    twice_.add(outcome.gradient.computed_twice ? 1 : 0);
    if (!steps_.alone())
      wait_.observe(outcome.wait_seconds);
    sent_.add(static_cast<double>(outcome.traffic.sent_bytes));
    plain_.add(static_cast<double>(outcome.traffic.plain_bytes));
    reports_.send(self_, context_, std::move(report));
    self_->send(context_.coordinator, Applied{fence, context_.role, version_, 0,
                                              outcome.traffic.sent_bytes,
                                              outcome.traffic.plain_bytes});
    rest(!outcome.snapshot.empty());
  }

  /// On the executor: it computed, then waited for the others' sums.
  void record(uint64_t step, const StepOutcome& outcome) {
    const auto ago = [](double seconds) {
      return std::chrono::duration_cast<SteadyClock::duration>(
        std::chrono::duration<double>{seconds});
    };
    const auto end = SteadyClock::now();
    const auto computed = end - ago(outcome.wait_seconds);
    context_.flight->record(Activity::compute,
                            computed - ago(outcome.gradient.seconds), computed,
                            step + 1);
    if (!steps_.alone())
      context_.flight->record(Activity::reduce, computed, end, step + 1);
  }

  // --- ending early ---------------------------------------------------------

  void on(const Pause&) {
    paused_ = true;
    self_->send(context_.coordinator,
                Paused{gate_.active(), context_.role, begun_});
  }

  void on(const EndAt& end) {
    end_ = end.step;
    paused_ = false;
    if (turns_ == 0 && begun_ == version_)
      rest(false); // otherwise the turn that runs, or comes, looks at end_
  }

  /// Goes on, or shows where the run ended. A turn that began before the end
  /// was known has not taken its snapshot.
  void rest(bool shown) {
    if (paused_)
      return;
    if (version_ < end_)
      keep_busy();
    else if (!shown)
      member_.show_end();
  }

  replica_actor::pointer self_;
  RoleContext context_;
  const Job& job_;
  Histogram& compute_;
  DataMetrics data_;
  Histogram& wait_;
  Counter& sent_;
  Counter& plain_;
  Gauge& queue_;
  Counter& twice_;
  SnapshotOutbox outbox_;
  KeptReports reports_;
  EpochGate gate_;
  std::vector<RoleId> peers_; ///< members of the epoch by place, itself too
  std::vector<std::pair<std::string, std::string>> links_; ///< peer, carrier
  uint64_t version_ = 0; ///< of the newest turn that is known to be over
  uint64_t begun_ = 0;   ///< first step not begun
  uint64_t end_;
  bool paused_ = false;
  uint32_t turns_ = 0; ///< submitted to the executor, not finished
  std::shared_ptr<Executor> executor_;
  ReplicaSteps steps_;
  GroupMember<replica_actor::pointer, ReplicaSteps> member_;
};

} // namespace

replica_actor spawn_replica(caf::actor_system& system, RoleContext context) {
  return system.spawn<replica_actor::stateful_impl<ReplicaState>>(
    std::move(context));
}

} // namespace troupe
