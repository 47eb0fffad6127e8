#include "actors/shard/snapshots.hpp"

#include "actors/shard_tables.hpp"

namespace troupe {
namespace {

/// Of the version before the newest the coordinator has had the rows: nobody
/// pulled the newest before.
void send_rows_snapshot(ShardFrame& shard, uint32_t slice, uint64_t version,
                        uint64_t named) {
  shard.run(
    [store = shard.store, slice, version] {
      const auto& table = store->table(slice);
      return table.version() == version ? copy_rows(table)
                                        : std::vector<TensorView>{};
    },
    [&shard, slice, named](std::vector<TensorView>& chunks) {
      const auto parts = static_cast<uint32_t>(chunks.size());
      for (uint32_t part = 0; part < parts; ++part)
        shard.self->send(shard.context.coordinator,
                         RowSnapshot{shard.context.job_id, named, slice, part,
                                     parts, std::move(chunks[part])});
    });
}

} // namespace

void send_snapshot(ShardFrame& shard, uint32_t slice, uint64_t version,
                   uint64_t named) {
  const auto& store = *shard.store;
  if (shard.job.plan.slices[slice].sparse())
    return send_rows_snapshot(shard, slice, version, named);
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
