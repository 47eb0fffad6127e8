#include "actors/worker/rows.hpp"

#include <cstring>

namespace troupe {

std::shared_ptr<const StepRows> WorkerRows::find(Samples samples) {
  if (samples.step >= job_.total_steps) // nothing follows
    samples.nodes.clear();
  auto of_nodes = samples_of(sampling_, samples.step, samples.nodes);
  if (!last_ || of_nodes != last_samples_ || samples.nodes != last_nodes_) {
    last_ = std::make_shared<const StepRows>(job_, *data_, samples.nodes,
                                             of_nodes, memory_, told_);
    last_samples_ = std::move(of_nodes);
    last_nodes_ = std::move(samples.nodes);
  }
  return last_;
}

std::vector<std::pair<uint32_t, RowPull>>
WorkerRows::pulls(RowPull pull) const {
  std::vector<std::pair<uint32_t, RowPull>> all;
  for (const auto& slice : job_.plan.slices)
    if (slice.sparse()) {
      pull.slice = slice.id;
      pull.ids = rows_->pull(slice);
      all.emplace_back(tails_[slice.id], pull);
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
