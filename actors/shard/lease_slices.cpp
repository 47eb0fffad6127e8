#include "actors/shard/lease_slices.hpp"

#include "actors/shard/snapshots.hpp"

#include <algorithm>

namespace troupe {

LeaseSlices::LeaseSlices(ShardFrame& shard) : shard_(shard) {
  const auto& owned = shard.store->slices();
  for (size_t i = 0; i < owned.size(); ++i)
    slices_.push_back(std::make_unique<Owned>(
      Owned{owned[i], applied(i), SliceWork{shard.job, shard.store, i}}));
}

LeaseSet LeaseSlices::applied(size_t local) const {
  const auto floor = shard_.period.step * shard_.job.options.virtual_ranks;
  const auto known = shard_.store->leases(local);
  return known.floor() < floor ? LeaseSet{floor, known.above()} : known;
}

void LeaseSlices::seal(std::vector<SliceState>& report) const {
  const auto& store = *shard_.store;
  for (size_t i = 0; i < slices_.size(); ++i) {
    const auto applied = this->applied(i);
    report.push_back({slices_[i]->id,
                      store.oldest(i),
                      store.newest(i),
                      {},
                      applied.floor(),
                      {applied.above().begin(), applied.above().end()}});
  }
}

void LeaseSlices::restore() {
  for (auto& slice : slices_) {
    slice->leases = {};
    slice->work.forget();
  }
}

void LeaseSlices::enter_epoch(const Activate&) {
  for (size_t i = 0; i < slices_.size(); ++i)
    slices_[i]->ordered = shard_.store->newest(i);
}

/// Copies between two updates, after every push that came before.
void LeaseSlices::pull(const Pull&, const worker_actor& worker) {
  shard_.run(
    [this] {
      std::vector<Pulled> copies;
      for (size_t i = 0; i < slices_.size(); ++i) {
        const auto version = shard_.store->newest(i);
        const std::span values{shard_.store->values(i, version),
                               shard_.job.plan.slices[slices_[i]->id].count};
        copies.push_back({{}, version, slices_[i]->id, shard_.copy(values)});
      }
      return copies;
    },
    [this, worker, fence = shard_.gate.active()](std::vector<Pulled>& copies) {
      for (auto& copy : copies) {
        copy.fence = fence;
        shard_.self->send(worker, std::move(copy));
      }
    });
}

void LeaseSlices::push(const LeasePush& push) {
  const auto& owned = shard_.store->slices();
  const auto at = std::find(owned.begin(), owned.end(), push.slice);
  if (at == owned.end()
      || (push.values.size() != 0
          && push.values.size() != shard_.job.plan.slices[push.slice].count))
    return;
  auto* slice = slices_[static_cast<size_t>(at - owned.begin())].get();
  if (slice->leases.contains(push.lease)) {
    shard_.count_duplicate();
    settle(push.lease); // the report may have died with a process
    return;
  }
  const auto staleness = slice->ordered - push.pulled_version;
  if (too_stale(staleness, push.lease))
    return;
  slice->leases.insert(push.lease);
  ++slice->ordered;
  shard_.metrics.staleness.observe(static_cast<double>(staleness));
  ++in_flight_[push.lease];
  const auto ranks = shard_.job.options.virtual_ranks;
  const auto samples = shard_.job.sampling
                         .rank(push.lease / ranks,
                               static_cast<uint32_t>(push.lease % ranks))
                         .count;
  shard_.run(
    [slice, values = push.values, samples, applied = slice->leases,
     period = shard_.period,
     scalars = StepScalars{push.scale,
                           {},
                           damped_rate(shard_.job.damping(), staleness)}] {
      slice->work.apply_lease(values, samples, scalars, period, applied);
      return true;
    },
    [this, lease = push.lease](bool) {
      if (--in_flight_[lease] == 0)
        in_flight_.erase(lease);
      settle(lease);
    });
  shard_.metrics.queue.set(static_cast<double>(shard_.executor->queued()));
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
  if (!shard_.gate.is_active() || in_flight_.contains(lease))
    return;
  for (const auto& slice : slices_)
    if (!slice->leases.contains(lease))
      return;
  shard_.self->send(shard_.context.coordinator,
                    LeaseApplied{shard_.gate.active(), shard_.context.role,
                                 lease, shard_.duplicates});
}

void LeaseSlices::snapshot(const SnapshotRequest& request) {
  shard_.run([] { return true; },
             [this, named = request.version](bool) {
               for (size_t i = 0; i < slices_.size(); ++i)
                 send_snapshot(shard_, i, shard_.store->newest(i), named);
             });
}

} // namespace troupe
