#include "actors/shard.hpp"

#include "actors/slice_work.hpp"
#include "monitoring/names.hpp"

#include <algorithm>
#include <functional>
#include <map>
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
      executor_(make_role_executor(context_)) {
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
    guard_role(self_, context_.coordinator);
    report_metrics(self_, context_);
    return {
      [this](const Propose& x) { on(x); },
      [this](const Activate& x) { on(x); },
      [](const Pause&) {},
      [this](const EndAt& x) { on(x); },
      [this](const SnapshotRequest& x) { on(x); },
      [this](const Finish& x) {
        if (x.job == context_.job_id)
          self_->quit();
      },
      [](const Completion& x) { x.then(); },
      [this](caf::tick_atom) { report_metrics(self_, context_); },
      [this](const Pull& x) { when_active(x); },
      [this](const Push& x) { when_active(x); },
      [this](const LeasePush& x) { when_active(x); },
    };
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
    bool applying = false;
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
    auto from = self_->current_sender();
    if (message.fence == fence_ && fence_.job != 0)
      on(message, from);
    else if (message.fence == sealing_)
      early_.push_back([this, message, from] { on(message, from); });
  }

  // --- epochs ---------------------------------------------------------------

  /// Seals once the executor is done with what it was given, so that the
  /// report is of a state that stands.
  void on(const Propose& proposal) {
    if (proposal.fence.epoch <= fence_.epoch && fence_.job != 0)
      return;
    fence_ = {};
    sealing_ = proposal.fence;
    early_.clear();
    wanted_.clear();
    run_on(
      *executor_, self_, [] { return true; },
      [this, fence = proposal.fence](bool) {
        if (fence == sealing_)
          seal();
      });
  }

  void seal() {
    Sealed report{sealing_, context_.role, context_.incarnation, {}};
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
    if (activation.fence != sealing_)
      return;
    fence_ = activation.fence;
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
    for (const auto& message : std::exchange(early_, {}))
      message();
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

  /// Sends the slice to every worker that waits for a version it holds.
  void serve(size_t local) {
    const auto& slice = job_.plan.slices[slices_[local]->id];
    for (auto& want : wanted_) {
      if (want.sent[local] || want.version > store_->newest(local)
          || want.version < store_->oldest(local))
        continue;
      want.sent[local] = true;
      self_->send(want.worker,
                  Pulled{fence_, want.version, slice.id,
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
      [this, worker, fence = fence_](std::vector<Pulled>& copies) {
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
    const bool complete = slice->ledger.complete();
    const auto step = slice->ledger.version();
    const auto samples = job_.sampling.step(step).count;
    slice->applying = complete;
    executor_->submit([slice, node = push.node, values = push.values,
                       decision = std::move(decision)]() mutable {
      slice->work.accept(node, std::move(values), decision);
    });
    if (complete)
      run_on(
        *executor_, self_,
        [slice, step, samples] {
          slice->work.apply_step(step, samples);
          return true;
        },
        [this, slice](bool) { on_applied(*slice); });
    show_load();
  }

  void on_applied(Owned& slice) {
    slice.applying = false;
    slice.ledger.advance();
    snapshot(slice);
    serve(local(slice));
    report_applied();
    show_load();
  }

  void report_applied() {
    if (async_ || fence_.job == 0)
      return;
    auto version = job_.total_steps; // what a shard without slices reports
    for (size_t i = 0; i < slices_.size(); ++i)
      version = std::min(version, store_->newest(i));
    if (version == reported_)
      return;
    reported_ = version;
    self_->send(context_.coordinator,
                Applied{fence_, context_.role, version, duplicates_});
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
       pulled = push.pulled_version] {
        const auto newest = store_->newest(local(*slice));
        metrics_.staleness.observe(static_cast<double>(newest - pulled));
        slice->work.apply_lease(values, samples, applied);
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
    if (fence_.job == 0 || in_flight_.contains(lease))
      return;
    for (const auto& slice : slices_)
      if (!slice->leases.contains(lease))
        return;
    self_->send(context_.coordinator,
                LeaseApplied{fence_, context_.role, lease, duplicates_});
  }

  // --- snapshots ------------------------------------------------------------

  void on(const EndAt& end) {
    if (end.fence != fence_)
      return;
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

  void on(const SnapshotRequest& request) {
    if (request.fence != fence_)
      return;
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
  Fence fence_;
  Fence sealing_;
  uint64_t end_;
  std::vector<std::unique_ptr<Owned>> slices_;
  std::vector<std::function<void()>> early_; ///< of the epoch being sealed
  std::vector<Wanted> wanted_;
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
