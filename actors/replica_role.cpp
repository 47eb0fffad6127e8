#include "actors/replica_role.hpp"

#include "actors/leaf_computer.hpp"
#include "actors/peer_directory.hpp"
#include "actors/role_frame.hpp"
#include "actors/slice_update.hpp"
#include "actors/tree_sum.hpp"
#include "monitoring/names.hpp"
#include "strategies/step_ledger.hpp"

#include <utility>

namespace troupe {
namespace {

/// What the executor brings back from one turn: the update of the step before
/// and the gradient of the next.
struct Turn {
  StepGradient gradient; ///< no nodes: the run ends here
  std::vector<SnapshotSlice> snapshot;
  uint64_t version = 0; ///< held after the update
};

class ReplicaState {
public:
  static inline const char* name = "replica";

  ReplicaState(replica_actor::pointer self, RoleContext context)
    : self_(self),
      context_(std::move(context)),
      job_(*context_.job),
      compute_(context_.metrics->histogram(metrics::compute_duration_seconds)),
      queue_(context_.metrics->gauge(metrics::executor_queue_tasks)),
      peers_(self->system()),
      ledger_(job_.options.virtual_ranks, 0),
      end_(job_.total_steps),
      executor_(make_role_executor(context_)) {
    for (const auto& role : job_.plan.roles) {
      if (role.role.kind == RoleKind::worker)
        ++replicas_;
      if (role.role == context_.role)
        plan_ = role;
    }
    computer_ = std::make_unique<LeafComputer>(context_.job,
                                               context_.data.train, *executor_,
                                               parse_device(plan_.device));
    nodes_ = maximal_nodes(plan_.ranks, job_.options.virtual_ranks);
    slots_ = state_slots(job_.options.rule.kind);
    parameters_ = Buffer{job_.layout.total};
    state_ = Buffer{job_.layout.total * slots_};
    sums_ = std::make_shared<Buffer>(job_.layout.total);
    reset();
  }

  ~ReplicaState() {
    executor_.reset(); // its task uses what is destroyed below
  }

  replica_actor::behavior_type make_behavior() {
    return role_behavior(
      self_, context_, [this](const Propose& x) { on(x); },
      [this](const Activate& x) { on(x); }, [this](const Pause& x) { on(x); },
      [this](const EndAt& x) { on(x); }, [](const SnapshotRequest&) {},
      [this](const Contribution& x) {
        gate_.admit(x.fence, [this, x] { on(x); });
      },
      [this](const Reduced& x) { on(x); });
  }

private:
  void reset() {
    version_ = 0;
    parameters_.fill(0);
    state_.fill(0);
    for (uint32_t i = 0; i < job_.graph.parameters.size(); ++i)
      initialize(job_.graph, job_.options.seed, i, 0,
                 parameters_.data() + job_.layout.offsets[i],
                 job_.graph.parameters[i].size());
  }

  // --- epochs ---------------------------------------------------------------

  void on(const Propose& proposal) {
    if (!gate_.propose(proposal.fence))
      return;
    run_on(
      *executor_, self_, [] { return true; },
      [this, fence = proposal.fence](bool) {
        if (!gate_.is_sealing(fence))
          return;
        Sealed report{fence, context_.role, context_.incarnation, {}};
        for (auto slice : plan_.slices)
          report.slices.push_back({slice, version_, version_, {}, 0, {}});
        self_->send(context_.coordinator, std::move(report));
      });
  }

  void on(const Activate& activation) {
    if (!gate_.is_sealing(activation.fence))
      return;
    peers_.connect(
      self_, context_.job_id, activation.members, RoleKind::worker,
      [this, activation] { start_epoch(activation); },
      [](const std::string&) {});
  }

  void start_epoch(const Activate& activation) {
    if (!gate_.is_sealing(activation.fence))
      return;
    gate_.open();
    paused_ = false;
    if (activation.rollback) {
      end_ = job_.total_steps;
      reset();
    }
    ledger_.reset(version_);
    contributions_.clear();
    reduced_.assign(replicas_, {});
    missing_ = replicas_;
    begun_ = version_;
    gate_.replay();
    rest(false);
  }

  bool alone() const { return replicas_ == 1; }

  /// A replica without peers waits for nobody: its executor always has the
  /// next turn, so that no message is on the path of a step.
  void keep_busy() {
    while (ahead_ && turns_ < 2)
      turn(true);
  }

  // --- a step ---------------------------------------------------------------

  /// Applies the reduced gradient (unless it is the first turn), then computes
  /// the next step: one visit to the executor.
  void turn(bool update) {
    const auto step = begun_;
    const bool last = step >= end_ || paused_;
    begun_ = last ? step : step + 1;
    ++turns_;
    ahead_ = !last;
    auto reduced = std::move(reduced_);
    run_on(
      *executor_, self_,
      [this, update, step, last, end = end_, reduced = std::move(reduced)] {
        Turn done;
        done.version = step;
        if (update) {
          apply(step - 1, alone() ? std::vector{own_sums_} : reduced);
          if (step == end || job_.is_snapshot_version(step))
            done.snapshot = take_snapshot(step);
        }
        if (!last)
          done.gradient = computer_->compute(step, nodes_, parameters_.data());
        if (!last && alone())
          own_sums_ = done.gradient.nodes.front().view(0, job_.layout.total);
        return done;
      },
      [this, update, fence = gate_.active()](Turn& done) {
        finish_turn(update, fence, done);
      });
    queue_.set(static_cast<double>(executor_->queued()));
  }

  void finish_turn(bool update, Fence fence, Turn& done) {
    version_ = done.version;
    --turns_;
    for (const auto& slice : done.snapshot)
      self_->send(context_.coordinator, slice);
    if (!gate_.is_active(fence))
      return; // sealed meanwhile
    if (update)
      self_->send(context_.coordinator,
                  Applied{gate_.active(), context_.role, version_, 0});
    auto& gradient = done.gradient;
    if (gradient.nodes.empty()) {
      rest(!done.snapshot.empty());
      return;
    }
    compute_.observe(gradient.seconds);
    if (!gradient.trouble.empty()) {
      self_->send(context_.coordinator,
                  Trouble{context_.job_id, context_.role, gradient.trouble});
      return;
    }
    self_->send(context_.coordinator, LeafReport{gate_.active(), context_.role,
                                                 version_, gradient.leaves});
    if (alone()) {
      keep_busy();
      return;
    }
    reduced_.assign(replicas_, {});
    missing_ = replicas_;
    for (const auto& node : gradient.nodes) {
      Contribution share{gate_.active(), version_, node.node,
                         node.view(0, job_.layout.total)};
      for (uint32_t i = 0; i < replicas_; ++i)
        if (i != context_.role.index)
          self_->send(peers_.at<replica_actor>(i), share);
      on(share);
    }
  }

  void on(const Contribution& share) {
    if (!is_node(share.node, job_.options.virtual_ranks))
      return;
    // No peer is ahead of this ledger: it could not begin the next step
    // without this replica's result.
    auto decision = ledger_.offer(share.step, share.node);
    if (decision.verdict != StepLedger::Verdict::accept)
      return;
    contributions_[share.node] = share.values;
    if (!ledger_.complete())
      return;
    ledger_.advance();
    finish_tree(share.step);
  }

  void finish_tree(uint64_t step) {
    auto given = std::move(contributions_);
    contributions_.clear();
    if (given.size() == 1) { // one replica covers the root
      publish(step, given.begin()->second);
      return;
    }
    run_on(
      *executor_, self_,
      [this, given = std::move(given)] {
        executor_->parallel_for(plan_.slices.size(), [&](size_t i, uint32_t) {
          const auto& slice = job_.plan.slices[plan_.slices[i]];
          const auto begin = job_.flat_offset(slice);
          tree_sum(given, job_.options.virtual_ranks, begin,
                   begin + slice.count, sums_->data());
        });
        return true;
      },
      [this, step, fence = gate_.active()](bool) {
        if (gate_.is_active(fence))
          publish(step, {sums_, sums_->data(), sums_->size()});
      });
  }

  void publish(uint64_t step, const TensorView& sums) {
    Reduced result{gate_.active(), step, context_.role.index, sums};
    for (uint32_t i = 0; i < replicas_; ++i)
      if (i != context_.role.index)
        self_->send(peers_.at<replica_actor>(i), result);
    on(result);
  }

  void on(const Reduced& result) {
    if (!gate_.is_active(result.fence) || result.owner >= reduced_.size()
        || result.step != version_ || reduced_[result.owner].size() != 0)
      return;
    reduced_[result.owner] = result.values;
    if (--missing_ == 0)
      turn(true);
  }

  void apply(uint64_t step, const std::vector<TensorView>& reduced) {
    whole_update(
      job_, executor_.get(), {step, step, job_.sampling.step(step).count},
      [&](const Slice& slice, UpdateArgs& args) {
        const auto at = job_.flat_offset(slice);
        args.gradient_sum = reduced[job_.plan.owner[slice.id]].data() + at;
        args.in = args.out = parameters_.data() + at;
        args.state_in = args.state_out = state_.data() + at;
        args.state_stride = job_.layout.total;
      });
  }

  std::vector<SnapshotSlice> take_snapshot(uint64_t version) const {
    std::vector<SnapshotSlice> result;
    for (auto id : plan_.slices) {
      const auto& slice = job_.plan.slices[id];
      const auto at = job_.flat_offset(slice);
      SnapshotSlice copy{
        context_.job_id,
        version,
        id,
        TensorView::copy({parameters_.data() + at, slice.count}),
        {}};
      for (uint32_t i = 0; i < slots_; ++i)
        copy.state.push_back(TensorView::copy(
          {state_.data() + i * job_.layout.total + at, slice.count}));
      result.push_back(std::move(copy));
    }
    return result;
  }

  // --- ending early ---------------------------------------------------------

  void on(const Pause& pause) {
    if (!gate_.is_active(pause.fence))
      return;
    paused_ = true;
    self_->send(context_.coordinator,
                Paused{gate_.active(), context_.role, begun_});
  }

  void on(const EndAt& end) {
    if (!gate_.is_active(end.fence))
      return;
    end_ = end.step;
    paused_ = false;
    if (turns_ == 0 && begun_ == version_)
      rest(false); // otherwise the turn that runs, or comes, looks at end_
  }

  /// Between two steps: goes on, or shows where the run ended. A turn that
  /// began before the end was known has not taken its snapshot.
  void rest(bool shown) {
    if (paused_)
      return;
    if (version_ < end_) {
      turn(false);
      if (alone())
        keep_busy();
    } else if (!shown)
      for (auto& slice : take_snapshot(version_))
        self_->send(context_.coordinator, std::move(slice));
  }

  replica_actor::pointer self_;
  RoleContext context_;
  const Job& job_;
  Histogram& compute_;
  Gauge& queue_;
  PeerDirectory peers_;
  RolePlan plan_;
  uint32_t replicas_ = 0;
  uint32_t slots_ = 0;
  std::vector<RankRange> nodes_;
  EpochGate gate_;

  StepLedger ledger_; ///< of the slices this replica owns, all at once
  std::map<RankRange, TensorView> contributions_;
  std::vector<TensorView> reduced_; ///< per owner
  uint32_t missing_ = 0;
  uint64_t version_ = 0;
  uint64_t begun_ = 0; ///< first step not begun
  uint64_t end_;
  bool paused_ = false;
  uint32_t turns_ = 0;  ///< submitted to the executor, not finished
  bool ahead_ = false;  ///< the newest turn leaves a gradient to apply
  TensorView own_sums_; ///< alone: of the newest step; the executor's

  Buffer parameters_;
  Buffer state_;
  std::shared_ptr<Buffer> sums_;
  std::shared_ptr<Executor> executor_;
  std::unique_ptr<LeafComputer> computer_;
};

} // namespace

replica_actor spawn_replica(caf::actor_system& system, RoleContext context) {
  return system.spawn<replica_actor::stateful_impl<ReplicaState>>(
    std::move(context));
}

} // namespace troupe
