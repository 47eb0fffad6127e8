#include "actors/shard/snapshots.hpp"

namespace troupe {

void send_snapshot(ShardFrame& shard, size_t local, uint64_t version,
                   uint64_t named) {
  const auto& store = *shard.store;
  const auto id = store.slices()[local];
  const auto count = shard.job.plan.slices[id].count;
  SnapshotSlice snapshot{
    shard.context.job_id,
    named,
    id,
    TensorView::copy({store.values(local, version), count}),
    {}};
  const auto* state = store.state(local, version);
  for (uint32_t i = 0; i < state_slots(shard.job.options.rule.kind); ++i)
    snapshot.state.push_back(TensorView::copy({state + i * count, count}));
  shard.self->send(shard.context.coordinator, std::move(snapshot));
}

} // namespace troupe
