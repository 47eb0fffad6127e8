#include "actors/worker_rows.hpp"

#include <cstring>

namespace troupe {

std::shared_ptr<const StepRows>
WorkerRows::find(uint64_t version, std::vector<RankRange> nodes) const {
  auto step = version;
  if (job_.options.synchronisation == Synchronisation::async) {
    const auto ranks = job_.options.virtual_ranks;
    const auto rank = static_cast<uint32_t>(version % ranks);
    step = version / ranks;
    nodes = {{rank, rank + 1}};
  }
  if (step >= job_.total_steps) // nothing follows
    nodes.clear();
  return std::make_shared<const StepRows>(job_, *data_, step, nodes);
}

std::vector<std::pair<uint32_t, RowPull>>
WorkerRows::pulls(RowPull pull) const {
  std::vector<std::pair<uint32_t, RowPull>> all;
  for (const auto& slice : job_.plan.slices)
    if (slice.sparse()) {
      pull.slice = slice.id;
      pull.ids = rows_->wanted(slice);
      all.emplace_back(job_.plan.owner[slice.id], pull);
    }
  return all;
}

bool WorkerRows::put(const Slice& slice, const TensorView& values,
                     float* parameters) const {
  if (slice.sparse())
    return rows_ && rows_->put(slice, values, parameters);
  if (values.size() != slice.count)
    return false;
  std::memcpy(parameters + job_.flat_offset(slice), values.data(),
              slice.count * sizeof(float));
  return true;
}

TensorView pushed_values(const Job& job, const NodeSum& node,
                         const Slice& slice) {
  if (slice.sparse())
    return node.rows->pushed(slice, node);
  return node.packed ? (*node.packed)[slice.id]
                     : node.view(job.flat_offset(slice), slice.count);
}

} // namespace troupe
