#pragma once

#include "actors/compute/push_packing.hpp"
#include "actors/control/peer_directory.hpp"
#include "actors/job/first_period.hpp"
#include "actors/role/epoch_gate.hpp"
#include "actors/role/epoch_pause.hpp"
#include "actors/role/link_terms.hpp"
#include "actors/role/snapshot_outbox.hpp"
#include "actors/shard/known_lists.hpp"
#include "actors/shard/metrics.hpp"
#include "actors/shard/row_snapshots.hpp"
#include "actors/shard/serve_spans.hpp"
#include "actors/shard/shard_store.hpp"
#include "kernels/base/steady_clock.hpp"

#include <chrono>
#include <memory>
#include <utility>

namespace troupe {

/// What a shard and its part share. Touched by the shard's actor only, but for
/// the store, which the executor's thread writes.
struct ShardContext {
  ShardContext(shard_actor::pointer self, RoleContext given,
               std::shared_ptr<ShardStore> store)
    : self(self),
      context(std::move(given)),
      job(*context.job),
      period(first_period(job)),
      metrics(*context.metrics),
      spans(context.flight),
      packing(job),
      store(std::move(store)),
      pause(*context.metrics),
      peers(self->system(), {context.links, context.role, shard_peer_terms()}),
      outbox(snapshot_window(),
             [this](const SnapshotSlice& x) {
               this->self->send(context.coordinator, x);
             }),
      executor(make_role_executor(context)) {}

  /// Runs `work` on the executor, after all that was submitted before, then
  /// `then(result)` in the actor.
  template <class Work, class Then>
  void run(Work work, Then then, TaskSize size = TaskSize::any) {
    run_on(*executor, self, timed(std::move(work)), std::move(then), size);
  }
  /// The same for work that nobody waits for.
  template <class Work>
  void submit(Work work, TaskSize size = TaskSize::any) {
    executor->submit(timed(std::move(work)), size);
  }

  /// The work, and its time to the account of how busy the shard is.
  template <class Work>
  auto timed(Work work) {
    return
      [work = std::move(work), &busy = metrics.busy, &spans = spans]() mutable {
        struct Watch {
          SteadyClock::time_point begin = SteadyClock::now();
          Counter& busy;
          ServeSpans& spans;
          ~Watch() {
            const auto end = SteadyClock::now();
            busy.add(std::chrono::duration<double>{end - begin}.count());
            spans.add(begin, end);
          }
        } watch{.busy = busy, .spans = spans};
        return work();
      };
  }

  /// Memory that peers on this host read in place; null where there is none.
  std::shared_ptr<LinkMemory> memory() const { return context.memory(); }

  /// A view of a copy of `values`, which peers on this host read in place.
  TensorView copy(std::span<const float> values) const {
    const auto lent = memory();
    return lent ? lent->copy(values) : TensorView::copy(values);
  }

  void pass(StepPhase phase) const { context.faults->pass(phase); }

  /// Whether a push, packed as the job has it, can be of that slice: its size
  /// is right, it is empty, or it is rows.
  bool fits_push(uint32_t slice, const TensorView& values) const {
    const auto& of = job.plan.slices[slice];
    return values.size() == 0 || of.sparse()
           || values.size() == packing.size(of);
  }

  /// `told`: by a report of this shard; of leases a chain's tail reports.
  void count_duplicate(bool told = true) {
    metrics.duplicates.add();
    duplicates += told ? 1 : 0;
  }

  /// What was pushed, or forwarded, says of its rows; nothing of a dense slice.
  KnownLists::Said said_of(const KnownLists& lists, uint32_t slice,
                           const TensorView& values) const {
    const auto& of = job.plan.slices[slice];
    return of.sparse() ? lists.pushed(job, of, values) : KnownLists::Said{};
  }

  /// Asks for another epoch with the same members: in it both sides of each
  /// conversation begin anew.
  void begin_anew(const std::string& why) const {
    self->send(context.coordinator,
               LinkLost{gate.active(), context.role,
                        to_string(context.role) + " " + why});
  }

  shard_actor::pointer self;
  RoleContext context;
  const Job& job;
  Consistency period; ///< that lasts
  ShardMetrics metrics;
  ServeSpans spans;
  const PushPacking packing;
  std::shared_ptr<ShardStore> store;
  EpochGate gate;
  EpochPauseWatch pause;   ///< ends when all that it is pulled for is served
  PeerDirectory peers;     ///< other shards
  SnapshotOutbox outbox;   ///< dense slices that are being sent
  RowSnapshots snapshots;  ///< the same of rows
  uint64_t duplicates = 0; ///< that it reports
  std::shared_ptr<Executor> executor;
};

} // namespace troupe
