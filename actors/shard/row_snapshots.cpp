#include "actors/shard/row_snapshots.hpp"

#include "actors/job/shard_tables.hpp"
#include "actors/job/snapshot_names.hpp"
#include "actors/shard/shard_context.hpp"
#include "actors/shard/snapshots.hpp"

namespace troupe {

/// The coordinator has had the rows of the version before the newest: nobody
/// pulled the newest earlier.
void RowSnapshots::begin(ShardContext& shard, uint32_t slice, uint64_t version,
                         uint64_t named, Shown shown) {
  const auto known = read_.find(slice);
  const auto read =
    shown == Shown::evaluated && known != read_.end() ? known->second : nullptr;
  shard.run(
    [&shard, store = shard.store, slice, wanted = version, shown, read] {
      Open open;
      const auto version = shard.period.async ? store->newest(slice) : wanted;
      if (!store->holds(slice) || store->newest(slice) != version)
        return open;
      const auto& table = store->table(slice);
      open.version = version;
      open.bytes = table.bytes();
      open.history = history_of(shard, slice, version);
      open.evaluated = read != nullptr;
      open.pages = chunks_of(table,
                             read ? table.present(*read) : table.present());
      if (shown != Shown::last)
        for (const auto& pages : open.pages)
          open.copies.push_back(copy_rows(table, pages));
      return open;
    },
    [this, &shard, slice, named](Open& open) {
      if (open.pages.empty())
        return;
      const Key key{slice, open.evaluated ? evaluation_name(named) : named};
      open_[key] = std::move(open);
      send(shard, key, 0);
    });
}

void RowSnapshots::evaluation_reads(const Job& job, const RowPull& pull) {
  if (pull.slice >= job.plan.slices.size()
      || !job.plan.slices[pull.slice].sparse())
    return;
  if (auto ids = wanted_rows(job, job.plan.slices[pull.slice], pull))
    read_[pull.slice] = std::make_shared<const RowList>(std::move(*ids));
}

void RowSnapshots::send(ShardContext& shard, const Key& key, uint32_t part) {
  const auto& open = open_.at(key);
  const auto [slice, named] = key;
  RowSnapshot chunk{shard.context.job_id,
                    named,
                    slice,
                    part,
                    static_cast<uint32_t>(open.pages.size()),
                    open.bytes,
                    {},
                    open.history};
  if (!open.copies.empty()) {
    chunk.rows = open.copies[part];
    shard.self->send(shard.context.coordinator, std::move(chunk));
    return;
  }
  shard.run(
    [store = shard.store, slice = slice, version = open.version,
     pages = open.pages[part]] {
      const bool here = store->holds(slice) && store->newest(slice) == version;
      return here ? copy_rows(store->table(slice), pages) : TensorView{};
    },
    [&shard, chunk](TensorView& rows) {
      if (rows.size() == 0)
        return; // rolled back meanwhile
      auto whole = chunk;
      whole.rows = std::move(rows);
      shard.self->send(shard.context.coordinator, std::move(whole));
    });
}

void RowSnapshots::took(ShardContext& shard, const SnapshotTaken& chunk) {
  const Key key{chunk.slice, chunk.version};
  auto found = open_.find(key);
  if (chunk.job != shard.context.job_id || found == open_.end())
    return;
  auto& open = found->second;
  if (chunk.part < open.copies.size())
    open.copies[chunk.part] = {};
  if (chunk.part + 1 < open.pages.size())
    send(shard, key, chunk.part + 1);
  else
    open_.erase(found);
}

} // namespace troupe
