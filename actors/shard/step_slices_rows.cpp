#include "actors/shard/step_slices.hpp"

#include <utility>

// Parts of sparse tables: pulls of rows by id, and by a list's name.

namespace troupe {

void StepSlices::pull(const RowPull& pull, const worker_actor& worker) {
  const auto* line = chains_.find(pull.slice);
  if (line == nullptr || !line->place.tail
      || !shard_.job.plan.slices[pull.slice].sparse())
    return;
  const auto& slice = shard_.job.plan.slices[pull.slice];
  auto& owned = *slices_.at(pull.slice);
  auto said = owned.lists.pulled(shard_.job, slice, pull);
  if (said.list) {
    owned.rows.want(pull, std::move(said.list), worker);
    serve_rows(pull.slice);
  } else if (said.named) {
    shard_.begin_anew("does not know the rows that a worker names");
  }
}

void StepSlices::serve_rows(uint32_t id) {
  if (!serves(id))
    return;
  auto& slice = *slices_.at(id);
  for (auto& ready : // k of n: a version that is gone is answered by a newer
       slice.rows.serve(shares_ ? 0 : shard_.store->oldest(id), slice.version))
    send_rows(shard_, id, std::move(ready));
}

/// A late copy of a push is of a list that may be forgotten.
void StepSlices::unknown_rows(const Push& push) {
  if (push.step < slices_.at(push.slice)->ledger.version())
    shard_.count_duplicate();
  else
    shard_.begin_anew("does not know the rows that a worker pushes");
}

} // namespace troupe
