#include "actors/leaf_computer.hpp"

#include "kernels/loops.hpp"
#include "kernels/random.hpp"

#include <atomic>
#include <chrono>
#include <cmath>

namespace troupe {

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
                           Executor& executor, DeviceId device)
  : job_(std::move(job)),
    data_(std::move(data)),
    executor_(executor),
    device_(device),
    sampling_(job_->sampling),
    lanes_(executor.threads()) {}

LeafComputer::Lane& LeafComputer::lane(uint32_t thread) {
  auto& lane = lanes_[thread];
  if (!lane.replica) { // a thread that no virtual rank reaches needs none
    const auto ranks = job_->options.virtual_ranks;
    const auto rows = (job_->options.global_batch + ranks - 1) / ranks;
    lane.replica = make_replica(job_->graph, device_, rows, job_->precision());
    lane.batch = std::make_unique<BatchMemory>(job_->graph, rows);
  }
  return lane;
}

StepGradient LeafComputer::compute(uint64_t step,
                                   const std::vector<RankRange>& nodes,
                                   const float* parameters) {
  const auto begin = std::chrono::steady_clock::now();
  StepGradient result;
  result.step = step;
  if (lanes_.size() == 1) {
    for (auto node : nodes)
      result.nodes.push_back({node, serial(step, node, parameters, result)});
  } else if (!nodes.empty()) {
    const auto first = nodes.front().lo;
    const auto ranks = nodes.back().hi - first;
    std::vector<Sum> leaves(ranks);
    result.leaves.resize(ranks);
    for (uint32_t i = 0; i < ranks; ++i) {
      // The permutation is made once, before threads share it.
      if (sampling_.rank(step, first + i).count > 0)
        leaves[i] = take();
    }
    sampling_.indices(step, first, lanes_.front().rows);
    executor_.parallel_for(ranks, [&](size_t i, uint32_t thread) {
      const auto rank = first + static_cast<uint32_t>(i);
      if (leaves[i])
        result.leaves[i] = leaf(step, rank, parameters, lane(thread),
                                *leaves[i]);
      else
        result.leaves[i] = LeafLoss{rank, 0, 0};
    });
    for (auto node : nodes)
      result.nodes.push_back({node, reduce(node, first, leaves)});
  }
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

LeafLoss LeafComputer::leaf(uint64_t step, uint32_t rank,
                            const float* parameters, Lane& lane,
                            Buffer& gradient) {
  sampling_.indices(step, rank, lane.rows);
  const auto rows = static_cast<uint32_t>(lane.rows.size());
  data_->gather(lane.rows.data(), rows, *lane.batch);
  const auto key = kernels::batch_key(job_->options.seed, step, rank);
  auto stats = lane.replica->gradient(parameters, lane.batch->batch(rows, key),
                                      gradient.data());
  return {rank, stats.loss_sum, rows};
}

LeafComputer::Sum LeafComputer::serial(uint64_t step, RankRange node,
                                       const float* parameters,
                                       StepGradient& result) {
  if (node.size() == 1) {
    if (sampling_.rank(step, node.lo).count == 0) {
      result.leaves.push_back({node.lo, 0, 0});
      return nullptr;
    }
    auto sum = take();
    result.leaves.push_back(leaf(step, node.lo, parameters, lane(0), *sum));
    return sum;
  }
  auto [left, right] = children(node);
  auto sum = serial(step, left, parameters, result);
  auto other = serial(step, right, parameters, result);
  if (!sum || !other)
    return sum ? sum : other;
  add(sum->data(), other->data(), sum->data(), sum->size());
  return sum;
}

LeafComputer::Sum LeafComputer::reduce(RankRange node, uint32_t first,
                                       std::vector<Sum>& leaves) {
  if (node.size() == 1)
    return leaves[node.lo - first];
  auto [left, right] = children(node);
  auto sum = reduce(left, first, leaves);
  auto other = reduce(right, first, leaves);
  if (!sum || !other)
    return sum ? sum : other;
  constexpr size_t block = 64 << 10;
  const auto total = sum->size();
  executor_.parallel_for((total + block - 1) / block, [&](size_t i, uint32_t) {
    const auto at = i * block;
    add(sum->data() + at, other->data() + at, sum->data() + at,
        std::min(block, total - at));
  });
  return sum;
}

LeafComputer::Sum LeafComputer::take() {
  for (auto& buffer : pool_)
    if (buffer.use_count() == 1) {
      std::atomic_thread_fence(std::memory_order_acquire);
      return buffer;
    }
  auto buffer = std::make_shared<Buffer>(job_->layout.total);
  buffer->fill(0);
  pool_.push_back(buffer);
  return buffer;
}

} // namespace troupe
