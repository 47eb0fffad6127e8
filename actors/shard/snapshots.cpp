#include "actors/shard/snapshots.hpp"

namespace troupe {
void send_snapshot(ShardFrame& shard, uint32_t slice, uint64_t version,
                   uint64_t named, bool lasting) {
  if (!shard.job.options.digests)
    return;
  const auto& store = *shard.store;
  if (shard.job.plan.slices[slice].sparse())
    return shard.snapshots.begin(shard, slice, version, named, lasting);
  const auto count = shard.job.plan.slices[slice].count;
  SnapshotSlice snapshot{
    shard.context.job_id,
    named,
    slice,
    TensorView::copy({store.values(slice, version), count}),
    {}};
  const auto* state = store.state(slice, version);
  for (uint32_t i = 0; i < state_slots(shard.job.options.rule.kind); ++i)
    snapshot.state.push_back(TensorView::copy({state + i * count, count}));
  shard.self->send(shard.context.coordinator, std::move(snapshot));
}

} // namespace troupe
