#include "actors/shard/snapshots.hpp"

#include <utility>

namespace troupe {

SliceHistory history_of(const ShardContext& shard, uint32_t slice,
                        uint64_t version) {
  const auto ranks = shard.job.options.virtual_ranks;
  const auto& period = shard.period;
  if (!period.async)
    return {version + period.count_from(), version * ranks, {}};
  const auto known = shard.store->leases(slice);
  const LeaseSet applied{std::max(known.floor(), period.step * ranks),
                         known.above()};
  return {version, applied.floor(), applied.above()};
}

SnapshotSlice copy_of(const Job& job, uint64_t job_id, const ShardStore& store,
                      uint32_t slice, uint64_t version, SliceHistory history) {
  const auto count = job.plan.slices[slice].count;
  SnapshotSlice copy{
    job_id, version,
    slice,  TensorView::copy({store.values(slice, version), count}),
    {},     std::move(history)};
  const auto* state = store.state(slice, version);
  for (uint32_t i = 0; i < state_slots(job.options.rule.kind); ++i)
    copy.state.push_back(TensorView::copy({state + i * count, count}));
  return copy;
}

SnapshotSlice copy_of(const ShardContext& shard, uint32_t slice,
                      uint64_t version, uint64_t named) {
  auto copy = copy_of(shard.job, shard.context.job_id, *shard.store, slice,
                      version, history_of(shard, slice, version));
  copy.version = named;
  return copy;
}

void send_snapshot(ShardContext& shard, uint32_t slice, uint64_t version,
                   uint64_t named, Shown shown) {
  if (!shard.job.options.digests)
    return;
  if (shard.job.plan.slices[slice].sparse())
    return shard.snapshots.begin(shard, slice, version, named, shown);
  shard.outbox.add(copy_of(shard, slice, version, named));
}

} // namespace troupe
