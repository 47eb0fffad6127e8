#include "actors/shard.hpp"

#include "actors/peer_directory.hpp"
#include "actors/role_frame.hpp"
#include "actors/scalar_decider.hpp"
#include "actors/slice_work.hpp"
#include "monitoring/names.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace troupe {
namespace {

struct ShardMetrics {
  explicit ShardMetrics(MetricRegistry& registry)
    : pending(registry.gauge(metrics::pending_nodes)),
      staleness(registry.histogram(metrics::push_staleness_steps)),
      duplicates(registry.counter(metrics::duplicates_dropped_total)),
      queue(registry.gauge(metrics::executor_queue_tasks)) {}
  Gauge& pending;
  Histogram& staleness;
  Counter& duplicates;
  Gauge& queue;
};

class ShardState {
public:
  static inline const char* name = "shard";

  ShardState(shard_actor::pointer self, RoleContext context,
             std::shared_ptr<ShardStore> store)
    : self_(self),
      context_(std::move(context)),
      job_(*context_.job),
      async_(job_.options.synchronisation == Synchronisation::async),
      metrics_(*context_.metrics),
      store_(std::move(store)),
      end_(job_.total_steps),
      rounds_(async_ ? std::vector<ScalarRoundKind>{}
                     : rounds_of(job_.options)),
      peers_(self->system()),
      executor_(make_role_executor(context_)) {
    if (!rounds_.empty() && ScalarDecider::is_decider(job_, *store_))
      decider_.emplace(job_, store_);
    const auto& owned = store_->slices();
    for (size_t i = 0; i < owned.size(); ++i)
      slices_.push_back(std::make_unique<Owned>(
        owned[i], StepLedger{job_.options.virtual_ranks, store_->newest(i)},
        async_ ? store_->leases(i) : LeaseSet{}, SliceWork{job_, store_, i}));
  }

  ~ShardState() {
    executor_.reset(); // its task writes what is destroyed below
  }

  shard_actor::behavior_type make_behavior() {
    return role_behavior(
      self_, context_, [this](const Propose& x) { on(x); },
      [this](const Activate& x) { on(x); }, [](const Pause&) {},
      [this](const EndAt& x) { when_active(x); },
      [this](const SnapshotRequest& x) { when_active(x); },
      [this](const Pull& x) { when_active(x); },
      [this](const Push& x) { when_active(x); },
      [this](const LeasePush& x) { when_active(x); },
      [this](const BlockSums& x) { when_active(x); },
      [this](const Scalars& x) { when_active(x); });
  }

private:
  struct Owned {
    Owned(uint32_t id, StepLedger ledger, LeaseSet leases, SliceWork work)
      : id(id),
        ledger(std::move(ledger)),
        leases(std::move(leases)),
        work(std::move(work)) {}
    uint32_t id;
    StepLedger ledger;
    LeaseSet leases; ///< applied, or on the way to be
    SliceWork work;
    uint32_t round = 0;  ///< of the step's scalars
    bool asking = false; ///< its sums of that round are with the decider
    StepScalars scalars; ///< of the rounds before

    void begin_step() {
      round = 0;
      asking = false;
      scalars = {};
    }
  };

  struct Wanted { // a worker's pull that is not wholly answered
    worker_actor worker;
    uint64_t version = 0;
    std::vector<bool> sent;
  };

  Owned* find(uint32_t slice) {
    const auto& owned = store_->slices();
    auto at = std::find(owned.begin(), owned.end(), slice);
    return at == owned.end() ? nullptr : slices_[at - owned.begin()].get();
  }

  size_t local(const Owned& slice) const {
    const auto& owned = store_->slices();
    return std::find(owned.begin(), owned.end(), slice.id) - owned.begin();
  }

  /// A worker may learn of the new epoch before this shard does: what it sends
  /// then waits for the activation. Anything else of another epoch is dropped.
  template <class Message>
  void when_active(const Message& message) {
    gate_.admit(message.fence, [this, message, from = self_->current_sender()] {
      on(message, from);
    });
  }

  // --- epochs ---------------------------------------------------------------

  /// Seals once the executor is done with what it was given, so that the
  /// report is of a state that stands.
  void on(const Propose& proposal) {
    if (!gate_.propose(proposal.fence))
      return;
    wanted_.clear();
    askers_.clear();
    if (decider_)
      decider_->forget();
    for (auto& slice : slices_)
      slice->begin_step();
    run_on(
      *executor_, self_, [] { return true; },
      [this, fence = proposal.fence](bool) {
        if (gate_.is_sealing(fence))
          seal();
      });
  }

  void seal() {
    Sealed report{gate_.sealing(), context_.role, context_.incarnation, {}};
    for (size_t i = 0; i < slices_.size(); ++i) {
      const auto& slice = *slices_[i];
      SliceState state{
        slice.id, store_->oldest(i), store_->newest(i), slice.ledger.held(), 0,
        {}};
      if (async_) {
        auto applied = store_->leases(i);
        state.lease_floor = applied.floor();
        state.leases_above.assign(applied.above().begin(),
                                  applied.above().end());
      }
      report.slices.push_back(std::move(state));
    }
    self_->send(context_.coordinator, std::move(report));
  }

  void on(const Activate& activation) {
    if (!gate_.is_sealing(activation.fence))
      return;
    if (rounds_.empty() || decider_) {
      start_epoch(activation);
      return;
    }
    const auto decider = job_.plan.owner.front();
    auto members = activation.members;
    std::erase_if(members, [&](const Member& x) {
      return x.role != RoleId{RoleKind::shard, decider};
    });
    peers_.connect(
      self_, activation.fence, members, RoleKind::shard,
      [this, activation] { start_epoch(activation); },
      [](RoleId, const std::string&) {}); // it died: the next epoch will tell
  }

  void start_epoch(const Activate& activation) {
    if (!gate_.is_sealing(activation.fence))
      return;
    gate_.open();
    if (activation.rollback) {
      end_ = job_.total_steps;
      store_->reset();
      for (auto& slice : slices_) {
        slice->ledger.reset(0);
        slice->leases = {};
        slice->work.forget();
      }
    }
    reported_ = ~uint64_t{0};
    for (auto& slice : slices_) // an earlier process may have died in between
      snapshot(*slice);
    report_applied();
    for (auto& slice : slices_) // its tree is whole, its scalars are not known
      if (slice->ledger.complete())
        reduce(*slice);
    gate_.replay();
  }

  // --- pulls ----------------------------------------------------------------

  void on(const Pull& pull, const caf::strong_actor_ptr& from) {
    auto worker = caf::actor_cast<worker_actor>(from);
    if (async_) {
      serve_newest(worker);
      return;
    }
    std::erase_if(wanted_, [&](const Wanted& x) { return x.worker == worker; });
    wanted_.push_back(
      {worker, pull.version, std::vector<bool>(slices_.size(), false)});
    for (size_t i = 0; i < slices_.size(); ++i)
      serve(i);
  }

  /// Sends it where the ledger knows it; a push must not be ahead of the
  /// ledger.
  void serve(size_t local) {
    const auto& slice = job_.plan.slices[slices_[local]->id];
    for (auto& want : wanted_) {
      if (want.sent[local] || want.version > slices_[local]->ledger.version()
          || want.version < store_->oldest(local))
        continue;
      want.sent[local] = true;
      self_->send(want.worker,
                  Pulled{gate_.active(), want.version, slice.id,
                         TensorView{store_, store_->values(local, want.version),
                                    slice.count}});
    }
    std::erase_if(wanted_, [](const Wanted& x) {
      return std::find(x.sent.begin(), x.sent.end(), false) == x.sent.end();
    });
  }

  /// Async: copies between two updates, after every push that came before.
  void serve_newest(const worker_actor& worker) {
    run_on(
      *executor_, self_,
      [this] {
        std::vector<Pulled> copies;
        for (size_t i = 0; i < slices_.size(); ++i) {
          const auto version = store_->newest(i);
          const auto count = job_.plan.slices[slices_[i]->id].count;
          copies.push_back(
            {{},
             version,
             slices_[i]->id,
             TensorView::copy({store_->values(i, version), count})});
        }
        return copies;
      },
      [this, worker, fence = gate_.active()](std::vector<Pulled>& copies) {
        for (auto& copy : copies) {
          copy.fence = fence;
          self_->send(worker, std::move(copy));
        }
      });
  }

  // --- synchronous pushes ---------------------------------------------------

  void on(const Push& push, const caf::strong_actor_ptr&) {
    auto* slice = find(push.slice);
    if (async_ || slice == nullptr
        || !is_node(push.node, job_.options.virtual_ranks)
        || (push.values.size() != 0
            && push.values.size() != job_.plan.slices[push.slice].count))
      return;
    auto decision = slice->ledger.offer(push.step, push.node);
    if (decision.verdict != StepLedger::Verdict::accept) {
      metrics_.duplicates.add();
      ++duplicates_;
      return;
    }
    metrics_.staleness.observe(0); // a step's pushes are of its version
    executor_->submit([slice, node = push.node, values = push.values,
                       decision = std::move(decision)]() mutable {
      slice->work.accept(node, std::move(values), decision);
    });
    if (slice->ledger.complete())
      reduce(*slice);
    show_load();
  }

  /// The slice's tree is whole: what is left are the rounds of scalars that the
  /// update needs, then the update.
  void reduce(Owned& slice) {
    const auto step = slice.ledger.version();
    const auto samples = job_.sampling.step(step).count;
    if (slice.round < rounds_.size())
      run_on(
        *executor_, self_,
        [&slice, kind = rounds_[slice.round], step, samples,
         scalars = slice.scalars] {
          return slice.work.sums(kind, step, samples, scalars);
        },
        [this, &slice, step, fence = gate_.active()](std::vector<double>& x) {
          if (gate_.is_active(fence))
            ask(slice, step, x);
        });
    else
      run_on(
        *executor_, self_,
        [&slice, step, samples, scalars = slice.scalars] {
          slice.work.apply_step(step, samples, scalars);
          return true;
        },
        [this, &slice](bool) { on_applied(slice); });
  }

  void ask(Owned& slice, uint64_t step, const std::vector<double>& sums) {
    slice.asking = true;
    auto decider = decider_ ? shard_actor{self_}
                            : peers_.at<shard_actor>(job_.plan.owner.front());
    self_->send(decider, BlockSums{gate_.active(),
                                   step,
                                   slice.round,
                                   slice.id,
                                   {sums.begin(), sums.end()}});
  }

  void on(const BlockSums& sums, const caf::strong_actor_ptr& from) {
    if (!decider_)
      return;
    auto asker = caf::actor_cast<shard_actor>(from);
    askers_.insert(asker);
    auto answer = decider_->offer(sums);
    if (!answer)
      return;
    const Scalars scalars{gate_.active(), sums.step, sums.round,
                          std::move(answer->values)};
    if (!answer->for_all)
      self_->send(asker, scalars);
    else
      for (const auto& shard : askers_)
        self_->send(shard, scalars);
  }

  void on(const Scalars& scalars, const caf::strong_actor_ptr&) {
    for (auto& slice : slices_) {
      if (!slice->asking || slice->round != scalars.round
          || slice->ledger.version() != scalars.step
          || !take_scalars(job_, rounds_[scalars.round],
                           {scalars.values.begin(), scalars.values.end()},
                           slice->scalars))
        continue;
      slice->asking = false;
      ++slice->round;
      reduce(*slice);
    }
  }

  void on_applied(Owned& slice) {
    slice.begin_step();
    slice.ledger.advance();
    snapshot(slice);
    serve(local(slice));
    report_applied();
    show_load();
  }

  void report_applied() {
    if (async_ || !gate_.is_active())
      return;
    auto version = job_.total_steps; // what a shard without slices reports
    for (size_t i = 0; i < slices_.size(); ++i)
      version = std::min(version, store_->newest(i));
    if (version == reported_)
      return;
    reported_ = version;
    self_->send(context_.coordinator,
                Applied{gate_.active(), context_.role, version, duplicates_});
  }

  void show_load() {
    size_t held = 0;
    for (const auto& slice : slices_)
      held += slice->ledger.held().size();
    metrics_.pending.set(static_cast<double>(held));
    metrics_.queue.set(static_cast<double>(executor_->queued()));
  }

  // --- asynchronous pushes --------------------------------------------------

  void on(const LeasePush& push, const caf::strong_actor_ptr&) {
    auto* slice = find(push.slice);
    if (!async_ || slice == nullptr
        || (push.values.size() != 0
            && push.values.size() != job_.plan.slices[push.slice].count))
      return;
    if (!slice->leases.insert(push.lease)) {
      metrics_.duplicates.add();
      ++duplicates_;
      settle(push.lease); // the report may have died with a process
      return;
    }
    ++in_flight_[push.lease];
    const auto ranks = job_.options.virtual_ranks;
    const auto samples = job_.sampling
                           .rank(push.lease / ranks,
                                 static_cast<uint32_t>(push.lease % ranks))
                           .count;
    run_on(
      *executor_, self_,
      [this, slice, values = push.values, samples, applied = slice->leases,
       scale = push.scale, pulled = push.pulled_version] {
        const auto newest = store_->newest(local(*slice));
        metrics_.staleness.observe(static_cast<double>(newest - pulled));
        slice->work.apply_lease(values, samples, scale, applied);
        return true;
      },
      [this, lease = push.lease](bool) {
        if (--in_flight_[lease] == 0)
          in_flight_.erase(lease);
        settle(lease);
      });
    show_load();
  }

  /// Reports a lease once every slice of this shard has really applied it.
  void settle(uint64_t lease) {
    if (!gate_.is_active() || in_flight_.contains(lease))
      return;
    for (const auto& slice : slices_)
      if (!slice->leases.contains(lease))
        return;
    self_->send(context_.coordinator,
                LeaseApplied{gate_.active(), context_.role, lease,
                             duplicates_});
  }

  // --- snapshots ------------------------------------------------------------

  void on(const EndAt& end, const caf::strong_actor_ptr&) {
    end_ = end.step;
    for (auto& slice : slices_)
      snapshot(*slice);
  }

  /// Sends copies of the versions that the plan (or an early end) names.
  void snapshot(const Owned& slice) {
    if (async_)
      return;
    const auto at = local(slice);
    for (auto version = store_->oldest(at); version <= store_->newest(at);
         ++version)
      if (version == end_ || job_.is_snapshot_version(version))
        send_snapshot(at, version, version);
  }

  void on(const SnapshotRequest& request, const caf::strong_actor_ptr&) {
    run_on(
      *executor_, self_, [] { return true; },
      [this, version = request.version](bool) {
        for (size_t i = 0; i < slices_.size(); ++i)
          send_snapshot(i, store_->newest(i), version);
      });
  }

  void send_snapshot(size_t local, uint64_t version, uint64_t named) {
    const auto id = slices_[local]->id;
    const auto count = job_.plan.slices[id].count;
    SnapshotSlice snapshot{
      context_.job_id,
      named,
      id,
      TensorView::copy({store_->values(local, version), count}),
      {}};
    const auto* state = store_->state(local, version);
    for (uint32_t i = 0; i < state_slots(job_.options.rule.kind); ++i)
      snapshot.state.push_back(TensorView::copy({state + i * count, count}));
    self_->send(context_.coordinator, std::move(snapshot));
  }

  shard_actor::pointer self_;
  RoleContext context_;
  const Job& job_;
  bool async_;
  ShardMetrics metrics_;
  std::shared_ptr<ShardStore> store_;
  EpochGate gate_;
  uint64_t end_;
  std::vector<std::unique_ptr<Owned>> slices_;
  std::vector<Wanted> wanted_;
  std::vector<ScalarRoundKind> rounds_;
  std::optional<ScalarDecider> decider_; ///< of the shard with slice 0
  std::set<shard_actor> askers_;         ///< of this epoch
  PeerDirectory peers_;
  std::map<uint64_t, size_t> in_flight_; ///< lease -> updates queued
  uint64_t reported_ = ~uint64_t{0};
  uint64_t duplicates_ = 0;
  std::shared_ptr<Executor> executor_;
};

} // namespace

shard_actor spawn_shard(caf::actor_system& system, RoleContext context,
                        std::shared_ptr<ShardStore> store) {
  return system.spawn<shard_actor::stateful_impl<ShardState>>(
    std::move(context), std::move(store));
}

} // namespace troupe
