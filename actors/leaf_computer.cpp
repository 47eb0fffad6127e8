#include "actors/leaf_computer.hpp"

#include "actors/step_rows.hpp"
#include "kernels/loops.hpp"
#include "kernels/random.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

namespace troupe {

SumBuffer::SumBuffer(size_t count, LinkMemory* memory)
  : values_(memory != nullptr ? memory->take(count) : nullptr), count_(count) {
  if (!values_) {
    auto own = std::make_shared<Buffer>(count);
    values_ = {own, own->data()};
  }
  std::fill_n(values_.get(), count, 0.0f);
}

TensorView NodeSum::view(uint64_t offset, uint64_t count) const {
  if (!sum)
    return {};
  return {sum, sum->data() + offset, count};
}

DeviceId parse_device(const std::string& text) {
  DeviceId device;
  const auto colon = text.find(':');
  if (text.starts_with("cuda"))
    device.kind = DeviceId::Kind::cuda;
  if (colon != std::string::npos)
    device.index = static_cast<uint32_t>(std::stoul(text.substr(colon + 1)));
  if (const auto dot = text.find('.'); dot != std::string::npos)
    device.slot = static_cast<uint32_t>(std::stoul(text.substr(dot + 1)));
  return device;
}

LeafComputer::LeafComputer(std::shared_ptr<const Job> job,
                           std::shared_ptr<const Dataset> data,
                           Executor& executor, DeviceId device,
                           std::shared_ptr<LinkMemory> memory)
  : job_(std::move(job)),
    data_(std::move(data)),
    executor_(executor),
    device_(device),
    sampling_(job_->sampling),
    whole_nodes_(job_->options.reduction == "fast" && executor.threads() == 1),
    rows_(whole_nodes_ ? job_->options.global_batch : job_->most_rows()),
    lanes_(executor.threads()),
    memory_(std::move(memory)) {}

LeafComputer::Lane& LeafComputer::lane(uint32_t thread) {
  auto& lane = lanes_[thread];
  if (!lane.replica) { // a thread that no virtual rank reaches needs none
    lane.replica = make_replica(job_->worker_graph, device_, rows_,
                                job_->precision());
    lane.batch = std::make_unique<BatchMemory>(job_->graph, rows_);
  }
  return lane;
}

StepGradient
LeafComputer::compute(uint64_t step, const std::vector<RankRange>& nodes,
                      const float* parameters,
                      std::shared_ptr<const StepRows> rows,
                      const GradientBuckets* buckets, const NodesReady& ready) {
  step_rows_ = std::move(rows);
  NodeTargets targets;
  std::vector<NodeSum> sums;
  if (buckets != nullptr) {
    targets.buckets = buckets;
    targets.ready = [&](uint32_t bucket) { ready(bucket, sums); };
  }
  for (auto node : nodes) {
    auto sum = take();
    targets.nodes.push_back(node);
    targets.sums.push_back(sum->data());
    sums.push_back({node, filled(step, node) ? sum : nullptr, step_rows_});
  }
  auto result = compute(step, targets, parameters);
  result.nodes = std::move(sums);
  step_rows_.reset();
  return result;
}

StepGradient LeafComputer::compute(uint64_t step, const NodeTargets& targets,
                                   const float* parameters) {
  const auto begin = std::chrono::steady_clock::now();
  StepGradient result;
  result.step = step;
  if (lanes_.size() > 1 && !targets.nodes.empty())
    parallel(step, targets, parameters, result);
  Serial run{step, parameters, &targets, 0, {}, false, &result};
  if (lanes_.size() == 1 && !targets.nodes.empty()) {
    run.last = targets.nodes.back().hi - 1;
    for (size_t i = 0; i < targets.nodes.size(); ++i)
      serial(run, targets.nodes[i], targets.sums[i]);
  }
  if (targets.ready && !run.spine_summed)
    for (uint32_t i = 0; i < targets.buckets->runs.size(); ++i)
      targets.ready(i);
  for (const auto& leaf : result.leaves) {
    if (result.trouble.empty() && !std::isfinite(leaf.loss_sum))
      result.trouble = "NaN loss at step " + std::to_string(step + 1)
                       + " in virtual rank " + std::to_string(leaf.virtual_rank)
                       + ": lower --lr or look at the data";
  }
  result.seconds =
    std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
  return result;
}

bool LeafComputer::filled(uint64_t step, RankRange ranks) const {
  for (auto rank = ranks.lo; rank < ranks.hi; ++rank)
    if (sampling_.rank(step, rank).count > 0)
      return true;
  return false;
}

LeafLoss LeafComputer::leaf(uint64_t step, RankRange ranks,
                            const float* parameters, Lane& lane,
                            float* gradient, const ParameterReady& ready) {
  sampling_.indices(step, ranks.lo, lane.rows);
  std::vector<uint32_t> more;
  for (auto rank = ranks.lo + 1; rank < ranks.hi; ++rank) {
    sampling_.indices(step, rank, more);
    lane.rows.insert(lane.rows.end(), more.begin(), more.end());
  }
  const auto rows = static_cast<uint32_t>(lane.rows.size());
  data_->gather(lane.rows.data(), rows, *lane.batch);
  if (step_rows_)
    step_rows_->renumber(lane.batch->ids(), rows * job_->graph.ids());
  const auto key = kernels::batch_key(job_->options.seed, step, ranks.lo);
  auto stats = lane.replica->gradient(parameters, lane.batch->batch(rows, key),
                                      gradient, ready);
  return {ranks.lo, stats.loss_sum, rows};
}

/// Sums `node` into `target`; false: it has no samples.
bool LeafComputer::serial(Serial& run, RankRange node, float* target) {
  if (node.size() == 1 || whole_nodes_)
    return serial_leaf(run, node, target);
  auto [left, right] = children(node);
  const bool has_left = serial(run, left, target);
  auto other = take();
  const bool holds_last = node.hi == run.last + 1;
  if (holds_last)
    run.spine.push_back({target, other->data(), has_left});
  const bool has_right = serial(run, right, other->data());
  if (!has_right || (holds_last && run.spine_summed))
    return has_left || has_right;
  if (has_left)
    add(target, other->data(), target, other->size());
  else
    std::copy_n(other->data(), other->size(), target);
  return true;
}

bool LeafComputer::serial_leaf(Serial& run, RankRange ranks, float* target) {
  if (!filled(run.step, ranks)) {
    for (auto rank = ranks.lo; rank < ranks.hi; ++rank)
      run.result->leaves.push_back({rank, 0, 0});
    return false;
  }
  const auto& targets = *run.targets;
  if (ranks.hi != run.last + 1 || !targets.ready) {
    run.result->leaves.push_back(
      leaf(run.step, ranks, run.parameters, lane(0), target));
  } else {
    // From the leaf upwards, each bucket as its gradient becomes final.
    const std::function<void(uint32_t)> settle = [&](uint32_t bucket) {
      const auto [begin, end] = targets.buckets->runs[bucket];
      for (auto at = run.spine.rbegin(); at != run.spine.rend(); ++at)
        if (at->left_filled)
          add(at->left + begin, at->right + begin, at->left + begin,
              end - begin);
        else
          std::copy_n(at->right + begin, end - begin, at->left + begin);
      targets.ready(bucket);
    };
    BucketProgress progress{*targets.buckets, settle};
    run.result->leaves.push_back(
      leaf(run.step, ranks, run.parameters, lane(0), target,
           [&](uint32_t parameter) { progress.parameter(parameter); }));
    progress.all();
    run.spine_summed = true;
  }
  // The samples of all ranks count as the first one's.
  for (auto rank = ranks.lo + 1; rank < ranks.hi; ++rank)
    run.result->leaves.push_back({rank, 0, 0});
  return true;
}

void LeafComputer::parallel(uint64_t step, const NodeTargets& targets,
                            const float* parameters, StepGradient& result) {
  const auto first = targets.nodes.front().lo;
  const auto ranks = targets.nodes.back().hi - first;
  std::vector<float*> leaves(ranks);
  std::vector<Sum> held;
  result.leaves.resize(ranks);
  std::vector<bool> asked(ranks);
  for (size_t i = 0; i < targets.nodes.size(); ++i)
    for (auto rank = targets.nodes[i].lo; rank < targets.nodes[i].hi; ++rank) {
      asked[rank - first] = true;
      if (sampling_.rank(step, rank).count == 0)
        continue;
      if (rank != targets.nodes[i].lo)
        held.push_back(take());
      leaves[rank - first] = rank == targets.nodes[i].lo ? targets.sums[i]
                                                         : held.back()->data();
    }
  // The permutation is made once, before threads share it.
  sampling_.indices(step, first, lanes_.front().rows);
  executor_.parallel_for(ranks, [&](size_t i, uint32_t thread) {
    const auto rank = first + static_cast<uint32_t>(i);
    if (leaves[i] != nullptr)
      result.leaves[i] = leaf(step, {rank, rank + 1}, parameters, lane(thread),
                              leaves[i]);
    else
      result.leaves[i] = LeafLoss{rank, 0, 0};
  });
  std::erase_if(result.leaves, [&](const LeafLoss& leaf) {
    return !asked[leaf.virtual_rank - first];
  });
  for (size_t i = 0; i < targets.nodes.size(); ++i) {
    auto* sum = reduce(targets.nodes[i], first, leaves);
    if (sum != nullptr && sum != targets.sums[i])
      std::copy_n(sum, job_->layout.total, targets.sums[i]);
  }
}

/// Returns where the sum of `node` lies; null: it has no samples.
float* LeafComputer::reduce(RankRange node, uint32_t first,
                            std::vector<float*>& leaves) {
  if (node.size() == 1)
    return leaves[node.lo - first];
  auto [left, right] = children(node);
  auto* sum = reduce(left, first, leaves);
  auto* other = reduce(right, first, leaves);
  if (sum == nullptr || other == nullptr)
    return sum != nullptr ? sum : other;
  constexpr size_t block = 64 << 10;
  const auto total = job_->layout.total;
  executor_.parallel_for((total + block - 1) / block, [&](size_t i, uint32_t) {
    const auto at = i * block;
    add(sum + at, other + at, sum + at, std::min(block, total - at));
  });
  return sum;
}

LeafComputer::Sum LeafComputer::take() {
  for (auto& buffer : pool_)
    if (buffer.use_count() == 1) {
      std::atomic_thread_fence(std::memory_order_acquire);
      return buffer;
    }
  auto buffer = std::make_shared<SumBuffer>(job_->layout.total, memory_.get());
  pool_.push_back(buffer);
  return buffer;
}

} // namespace troupe
