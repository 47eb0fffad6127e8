#include "actors/shard/row_desk.hpp"

#include "actors/job/shard_tables.hpp"
#include "actors/shard/task_size.hpp"

#include <optional>
#include <utility>

namespace troupe {

void RowDesk::want(const RowPull& pull, KnownLists::List ids,
                   const worker_actor& worker) {
  if (desk_.want(pull.worker, pull.version))
    wishes_[pull.worker] = {worker, std::move(ids)};
}

std::vector<RowDesk::Ready> RowDesk::serve(uint64_t oldest, uint64_t known) {
  std::vector<Ready> ready;
  for (auto [puller, version] : desk_.serve(0, oldest, known)) {
    auto wish = wishes_.extract(puller);
    ready.push_back(
      {wish.mapped().worker, version, std::move(wish.mapped().ids)});
  }
  return ready;
}

void RowDesk::reset() {
  desk_.reset(1);
  wishes_.clear();
}

namespace {

void send_when_read(ShardContext& shard, uint32_t slice, RowDesk::Ready ready,
                    bool newest) {
  auto worker = ready.worker;
  const auto size =
    task_size(gradient_values(shard.job, slice, ready.ids.get()));
  shard.run(
    [store = shard.store, slice, newest, ready = std::move(ready),
     or_newer = shard.job.options.backup_workers > 0, memory = shard.memory()] {
      const auto& table = store->table(slice);
      const auto from = store->count_from();
      auto count = newest ? table.version() : ready.version + from;
      if (or_newer && count + 1 < table.version())
        count = table.version();
      return std::pair{count - from,
                       read_rows(table, count, *ready.ids, memory.get())};
    },
    [&shard, slice, worker, fence = shard.gate.active()](
      std::pair<uint64_t, std::optional<TensorView>>& rows) {
      if (rows.second)
        shard.self->send(worker, Pulled{fence, rows.first, slice,
                                        std::move(*rows.second)});
    },
    size);
}

} // namespace

void send_rows(ShardContext& shard, uint32_t slice, RowDesk::Ready ready) {
  send_when_read(shard, slice, std::move(ready), false);
}

void send_newest_rows(ShardContext& shard, uint32_t slice,
                      RowDesk::Ready ready) {
  send_when_read(shard, slice, std::move(ready), true);
}

} // namespace troupe
