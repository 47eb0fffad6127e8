#include "actors/shard/lease_slices.hpp"

#include "actors/job/shard_tables.hpp"
#include "actors/shard/row_desk.hpp"
#include "actors/shard/snapshots.hpp"
#include "actors/shard/task_size.hpp"
#include "strategies/free_rows.hpp"

#include <algorithm>

namespace troupe {
namespace {

/// Bounds rows that run free where the job has no bound of its own: what a
/// worker has pushed and no tail has applied yet lies in queues.
constexpr uint64_t max_steps_behind = 64;

} // namespace

LeaseSlices::LeaseSlices(ShardContext& shard)
  : shard_(shard),
    chains_(shard, {[this](const ChainUpdate& x) { apply(x); },
                    [this](uint32_t slice, const SliceImage& image) {
                      slices_.at(slice)->leases = of_period(image.leases);
                    },
                    [this](uint32_t slice, uint64_t) { became_current(slice); },
                    [](uint32_t, uint32_t) {}}),
    free_rows_(shard.job.plan.dense_reduced),
    end_(shard.job.total_steps) {}

void LeaseSlices::leave_epoch() {
  waiting_.clear();
  waiting_rows_.clear();
  for (auto& [id, slice] : slices_)
    slice->lists.reset();
  snapshot_.reset();
}

LeaseSet LeaseSlices::applied(uint32_t slice) const {
  return of_period(shard_.store->leases(slice));
}

LeaseSet LeaseSlices::of_period(const LeaseSet& known) const {
  const auto floor = shard_.period.step * shard_.job.options.virtual_ranks;
  return known.floor() < floor ? LeaseSet{floor, known.above()} : known;
}

void LeaseSlices::seal(std::vector<SliceState>& report) const {
  const auto& store = *shard_.store;
  for (auto slice : store.slices()) {
    const auto applied = this->applied(slice);
    report.push_back({slice,
                      store.oldest(slice),
                      store.newest(slice),
                      {},
                      applied.floor(),
                      {applied.above().begin(), applied.above().end()},
                      store.lineage(slice)});
  }
}

void LeaseSlices::restore() {
  end_ = shard_.job.total_steps;
  slices_.clear();
}

void LeaseSlices::enter_epoch(const Activate& activation) {
  in_flight_.clear();
  reported_ = ~uint64_t{0};
  chains_.enter_epoch(activation);
  std::erase_if(slices_, [&](const auto& x) {
    return chains_.find(x.first) == nullptr;
  });
  for (const auto& [slice, line] : chains_.lines()) {
    auto& owned = slices_[slice];
    if (!owned)
      owned = std::make_unique<Owned>(Owned{
        {}, SliceWork{shard_.job, shard_.store, slice, *shard_.executor}, {}});
    owned->leases = shard_.store->holds(slice) ? applied(slice) : LeaseSet{};
  }
  if (!free_rows_)
    return;
  for (auto slice : served()) // an earlier process may have died in between
    show_steps(slice, std::max<uint64_t>(1, through(slice)) - 1);
  report_steps();
}

std::vector<uint32_t> LeaseSlices::served() const {
  std::vector<uint32_t> slices;
  for (const auto& [slice, line] : chains_.lines())
    if (line.place.tail && line.serves)
      slices.push_back(slice);
  return slices;
}

/// Steps' messages are of no lease.
void LeaseSlices::take(const ShardMessage& message,
                       const caf::strong_actor_ptr& from) {
  const auto worker = [&] { return caf::actor_cast<worker_actor>(from); };
  std::visit(Overload{[&](const Pull& x) { pull(x, worker()); },
                      [&](const RowPull& x) { pull(x, worker()); },
                      [](const Push&) {}, [&](const LeasePush& x) { push(x); },
                      [](const BlockSums&) {}, [](const Scalars&) {},
                      [&](const ChainJoin& x) { chains_.take(x); },
                      [&](const SliceCopy& x) { chains_.take(x); },
                      [&](const ChainUpdate& x) { chains_.take(x); },
                      [](const ChainScalars&) {}, [](const ScalarsHeld&) {},
                      [](const AskShares&) {}, [](const StepShares&) {},
                      [&](const EndAt& x) { end_at(x); },
                      [&](const SnapshotRequest& x) { snapshot(x); }},
             message);
}

void LeaseSlices::pull(const Pull&, const worker_actor& worker) {
  shard_.pass(StepPhase::pull);
  give(worker, served());
  for (const auto& [slice, line] : chains_.lines())
    if (line.place.tail && !line.serves)
      waiting_[slice].push_back(worker);
}

void LeaseSlices::became_current(uint32_t slice) {
  if (!chains_.find(slice)->place.tail)
    return;
  give_waiting_rows(slice);
  if (auto waiting = waiting_.extract(slice))
    for (const auto& worker : waiting.mapped())
      give(worker, {slice});
  if (free_rows_) {
    show_steps(slice, through(slice));
    report_steps();
  } else if (snapshot_) {
    show({slice}, *snapshot_);
  }
}

/// Copies between two updates, after every one that came before.
void LeaseSlices::give(const worker_actor& worker,
                       const std::vector<uint32_t>& slices) {
  uint64_t values = 0;
  for (auto slice : slices)
    values += gradient_values(shard_.job, slice, nullptr);
  shard_.run(
    [this, slices] {
      std::vector<Pulled> copies;
      for (auto slice : slices) {
        if (shard_.job.plan.slices[slice].sparse())
          continue; // rows are asked for by id
        const auto version = shard_.store->newest(slice);
        const std::span values{shard_.store->values(slice, version),
                               shard_.job.plan.slices[slice].count};
        copies.push_back({{}, version, slice, shard_.copy(values)});
      }
      return copies;
    },
    [this, worker, fence = shard_.gate.active()](std::vector<Pulled>& copies) {
      for (auto& copy : copies) {
        copy.fence = fence;
        shard_.self->send(worker, std::move(copy));
      }
    },
    task_size(values));
}

void LeaseSlices::pull(const RowPull& pull, const worker_actor& worker) {
  const auto* line = chains_.find(pull.slice);
  if (line == nullptr || !line->place.tail
      || !shard_.job.plan.slices[pull.slice].sparse())
    return;
  const auto& slice = shard_.job.plan.slices[pull.slice];
  auto said = slices_.at(pull.slice)->lists.pulled(shard_.job, slice, pull);
  if (!said.list) {
    if (said.named)
      shard_.begin_anew("does not know the rows that a worker names");
    return;
  }
  give_rows(pull.slice, {worker, pull.version, std::move(said.list)});
}

void LeaseSlices::give_rows(uint32_t slice, RowDesk::Ready ready) {
  const auto ranks = shard_.job.options.virtual_ranks;
  const auto asked = shard_.period.staleness < 0
                       ? max_steps_behind
                       : static_cast<uint64_t>(shard_.period.staleness);
  // Leases of later steps are exceptions of the slice's set.
  const auto bound = std::min<uint64_t>(asked, ShardStore::max_exceptions
                                                 / (2 * uint64_t{ranks}));
  if (!chains_.find(slice)->serves
      || (free_rows_
          && !may_read(slices_.at(slice)->leases, ready.version, bound,
                       ranks))) {
    waiting_rows_[slice].push_back(std::move(ready));
    return;
  }
  if (free_rows_)
    max_behind_ = std::max(
      max_behind_, ready.version - std::min(ready.version, through(slice)));
  send_newest_rows(shard_, slice, std::move(ready));
}

void LeaseSlices::give_waiting_rows(uint32_t slice) {
  if (auto waiting = waiting_rows_.extract(slice))
    for (auto& ready : waiting.mapped())
      give_rows(slice, std::move(ready));
}

void LeaseSlices::push(const LeasePush& push) {
  const auto* line = chains_.find(push.slice);
  if (line == nullptr || !line->place.head
      || !shard_.fits_push(push.slice, push.values))
    return;
  ChainUpdate update;
  update.slice = push.slice;
  update.lease = push.lease;
  if (slices_.at(push.slice)->leases.contains(push.lease)) {
    shard_.count_duplicate(line->place.tail);
    chains_.repeat(update);
    settle(push.lease); // the report may have died with a process
    return;
  }
  const auto& owned = *slices_.at(push.slice);
  auto said = shard_.said_of(owned.lists, push.slice, push.values);
  if (said.named && !said.list) {
    shard_.begin_anew("does not know the rows that a worker pushes");
    return;
  }
  const auto version = line->replica.state().version;
  const auto staleness = version - std::min(version, push.pulled_version);
  if (too_stale(staleness, push.lease))
    return;
  shard_.metrics.staleness.observe(static_cast<double>(staleness));
  const auto ranks = shard_.job.options.virtual_ranks;
  update.samples = shard_.job.sampling
                     .rank(push.lease / ranks,
                           static_cast<uint32_t>(push.lease % ranks))
                     .count;
  update.rate_scale = damped_rate(shard_.job.damping(), staleness);
  update.gradient_scale = push.scale;
  update.values = push.values;
  shard_.pass(StepPhase::reduce);
  if (said.named && chains_.forwards(push.slice))
    update.values = whole_payload(
      shard_.job, shard_.job.plan.slices[push.slice], {push.values, said.list});
  chains_.order(update);
  apply(update, std::move(said.list));
}

void LeaseSlices::apply(const ChainUpdate& update, KnownLists::List ids) {
  if (update.again) {
    if (chains_.find(update.slice)->place.tail)
      ++shard_.duplicates;
    settle(update.lease);
    return;
  }
  auto* slice = slices_.at(update.slice).get();
  if (!ids)
    ids = shard_.said_of(slice->lists, update.slice, update.values).list;
  const auto before = through(update.slice);
  slice->leases.insert(update.lease);
  ++in_flight_[update.lease];
  shard_.run(
    [this, slice, id = update.slice, values = update.values, ids,
     samples = update.samples, applied = slice->leases, period = shard_.period,
     scalars = StepScalars{update.gradient_scale, {}, update.rate_scale}] {
      const auto& of = shard_.job.plan.slices[id];
      slice->work.apply_lease(addend_of(shard_.job, of,
                                        shard_.packing.unpack(of, values), ids),
                              samples, scalars, period, applied);
      return true;
    },
    [this, lease = update.lease](bool) {
      if (--in_flight_[lease] == 0)
        in_flight_.erase(lease);
      settle(lease);
    },
    task_size(gradient_values(shard_.job, update.slice, ids.get())));
  shard_.metrics.queue.set(static_cast<double>(shard_.executor->queued()));
  if (!free_rows_ || through(update.slice) == before)
    return;
  give_waiting_rows(update.slice); // reads come after what was queued
  show_steps(update.slice, before + 1);
}

bool LeaseSlices::too_stale(uint64_t staleness, uint64_t lease) {
  const auto limit = shard_.job.options.reject_stale;
  if (limit < 0 || staleness <= static_cast<uint64_t>(limit))
    return false;
  shard_.metrics.too_stale.add();
  shard_.self->send(shard_.context.coordinator,
                    LeaseRefused{shard_.gate.active(), shard_.context.role,
                                 lease});
  return true;
}

void LeaseSlices::settle(uint64_t lease) {
  if (free_rows_)
    return report_steps();
  if (!shard_.gate.is_active() || in_flight_.contains(lease))
    return;
  bool any = false;
  for (const auto& [slice, line] : chains_.lines()) {
    if (!line.place.tail)
      continue;
    any = true;
    if (!line.serves || !slices_.at(slice)->leases.contains(lease))
      return;
  }
  if (any)
    shard_.self->send(shard_.context.coordinator,
                      LeaseApplied{shard_.gate.active(), shard_.context.role,
                                   lease, shard_.duplicates});
}

// --- rows that run free -----------------------------------------------------

uint64_t LeaseSlices::through(uint32_t slice) const {
  return steps_through(slices_.at(slice)->leases,
                       shard_.job.options.virtual_ranks);
}

void LeaseSlices::report_steps() {
  if (!shard_.gate.is_active())
    return;
  auto version = ~uint64_t{0};
  for (const auto& [slice, line] : chains_.lines()) {
    if (!line.place.tail)
      continue;
    if (!line.serves)
      return;
    version = std::min(version, through(slice));
  }
  if (!in_flight_.empty()) // queued, and may die with this process
    version = std::min(version, in_flight_.begin()->first
                                  / shard_.job.options.virtual_ranks);
  if (version == reported_ || version == ~uint64_t{0})
    return;
  reported_ = version;
  Applied applied{shard_.gate.active(), shard_.context.role, version,
                  shard_.duplicates};
  applied.max_behind = max_behind_;
  shard_.self->send(shard_.context.coordinator, applied);
}

void LeaseSlices::show_steps(uint32_t slice, uint64_t first) {
  const auto* line = chains_.find(slice);
  if (!line->place.tail || !line->serves)
    return;
  const auto last = std::min(end_, shard_.job.total_steps);
  const auto newest = shard_.store->newest(slice);
  for (auto version = first; version <= through(slice); ++version) {
    if (version == end_ || shard_.job.is_snapshot_version(version))
      send_snapshot(shard_, slice, newest, version,
                    version == last ? Shown::last : Shown::evaluated);
    if (snapshot_ == version && version != last)
      send_snapshot(shard_, slice, newest, version, Shown::all);
  }
}

void LeaseSlices::end_at(const EndAt& end) {
  end_ = end.step;
  if (free_rows_)
    for (auto slice : served())
      show_steps(slice, through(slice));
}

void LeaseSlices::snapshot(const SnapshotRequest& request) {
  snapshot_ = request.version;
  if (free_rows_) {
    for (auto slice : served())
      if (through(slice) >= request.version)
        send_snapshot(shard_, slice, shard_.store->newest(slice),
                      request.version, Shown::all);
    return;
  }
  show(served(), request.version);
}

/// Copies between two updates: a slice with just the leases it is said to have.
void LeaseSlices::show(const std::vector<uint32_t>& slices, uint64_t named) {
  if (!shard_.job.options.digests)
    return;
  shard_.run(
    [this, slices, named] {
      std::vector<SnapshotSlice> copies;
      for (auto slice : slices)
        if (!shard_.job.plan.slices[slice].sparse())
          copies.push_back(
            copy_of(shard_, slice, shard_.store->newest(slice), named));
      return copies;
    },
    [this, slices, named](const std::vector<SnapshotSlice>& copies) {
      for (const auto& copy : copies)
        shard_.outbox.add(copy);
      for (auto slice : slices)
        if (shard_.job.plan.slices[slice].sparse())
          send_snapshot(shard_, slice, shard_.store->newest(slice), named,
                        named > shard_.job.total_steps ? Shown::last
                                                       : Shown::all);
    });
}

} // namespace troupe
