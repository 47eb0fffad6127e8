#include "actors/compute/leaf_computer.hpp"

#include "actors/compute/not_finite.hpp"
#include "actors/compute/rank_statistics.hpp"
#include "actors/compute/step_rows.hpp"
#include "actors/wire/sole_owner.hpp"
#include "kernels/base/require.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/cpu/vector_loops.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

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
  if (text.starts_with("pjrt:")) {
    const auto end = text.rfind(':');
    const auto numbers = text.substr(end + 1);
    const auto first = std::stoul(numbers);
    const auto dash = numbers.find('-');
    const auto last =
      dash == numbers.npos ? first : std::stoul(numbers.substr(dash + 1));
    return pjrt_device(text.substr(colon + 1, end - colon - 1),
                       static_cast<uint32_t>(first),
                       static_cast<uint32_t>(last - first + 1));
  }
  if (text.starts_with("cuda"))
    device.kind = DeviceId::Kind::cuda;
  if (colon != std::string::npos)
    device.index = static_cast<uint32_t>(std::stoul(text.substr(colon + 1)));
  if (const auto dot = text.find('.'); dot != std::string::npos)
    device.slot = static_cast<uint32_t>(std::stoul(text.substr(dot + 1)));
  return device;
}

std::string plugin_of_device(const std::string& text) {
  const auto device = parse_device(text);
  return device.file != nullptr ? *device.file : std::string{};
}

LeafComputer::LeafComputer(std::shared_ptr<const Job> job,
                           std::shared_ptr<const Dataset> data,
                           Executor& executor, DeviceId device,
                           std::shared_ptr<LinkMemory> memory,
                           std::shared_ptr<FaultTrigger> faults,
                           std::shared_ptr<FlightRecorder> flight)
  : job_(std::move(job)),
    data_(std::move(data)),
    executor_(executor),
    device_(device),
    open_(open_device(device)),
    sampling_(job_->sampling),
    lock_step_(job_->goes_in_lock_step()),
    whole_nodes_(job_->options.reduction == "fast" && executor.threads() == 1
                 && !lock_step_),
    stacked_rows_(whole_nodes_ || executor.threads() > 1 || lock_step_
                    ? 0
                    : stacked_rows(job_->worker_graph, device)),
    rows_(whole_nodes_
            ? sampling_.max_of_step()
            : std::max(job_->max_rows(),
                       std::min(stacked_rows_, sampling_.max_of_step()))),
    lanes_(lock_step_ ? job_->options.virtual_ranks : executor.threads()),
    memory_(std::move(memory)),
    faults_(std::move(faults)),
    flight_(std::move(flight)) {}

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
                      const GradientBuckets* buckets, const NodesReady& ready,
                      ParameterGate* gate, RankPeers* peers) {
  step_rows_ = std::move(rows);
  gate_ = gate;
  NodeTargets targets;
  targets.peers = peers;
  std::vector<NodeSum> sums;
  if (buckets != nullptr) {
    targets.buckets = buckets;
    targets.ready = [&](uint32_t bucket) {
      if (gate != nullptr)
        gate->await_all(); // also for those that no operator reads
      ready(bucket, sums);
    };
  }
  for (auto node : nodes) {
    auto sum = take();
    targets.nodes.push_back(node);
    targets.sums.push_back(sum->data());
    sums.push_back({node, filled(step, node) ? sum : nullptr, step_rows_});
  }
  StepGradient result;
  try {
    result = compute(step, targets, parameters);
    if (gate != nullptr)
      gate->await_all();
    result.nodes = std::move(sums);
  } catch (const PassAbandoned&) {
    take_data_time(); // they are no step's
    result = {};
    result.step = step;
    result.abandoned = true;
  }
  if (gate != nullptr)
    result.seconds -= std::chrono::duration<double>(gate->waited()).count();
  step_rows_.reset();
  gate_ = nullptr;
  return result;
}

StepGradient LeafComputer::compute(uint64_t step, const NodeTargets& targets,
                                   const float* parameters) {
  const auto begin = SteadyClock::now();
  StepGradient result;
  result.step = step;
  Serial run;
  run.step = step;
  run.parameters = parameters;
  run.targets = &targets;
  run.result = &result;
  once(run);
  if (!all_told(run))
    compute_again(run);
  result.seconds = seconds_since(begin);
  result.data = take_data_time();
  return result;
}

void LeafComputer::once(Serial& run) {
  const auto& targets = *run.targets;
  if (targets.nodes.empty())
    return;
  if (lanes_.size() > 1) {
    parallel(run.step, targets, run.parameters, *run.result);
    return;
  }
  run.last = targets.nodes.back().hi - 1;
  for (size_t i = 0; i < targets.nodes.size(); ++i)
    serial(run, targets.nodes[i], targets.sums[i]);
}

/// A bucket's run of all sums is final. Gives it away, if all before it are.
void LeafComputer::tell(Serial& run, uint32_t bucket) {
  const auto [begin, end] = run.targets->buckets->runs[bucket];
  run.spoiled = run.spoiled || !is_finite(run, begin, end);
  if (run.spoiled)
    return;
  run.told = bucket + 1;
  run.targets->ready(bucket);
}

/// All has been computed. False: something of it is not finite.
bool LeafComputer::all_told(Serial& run) {
  const auto& targets = *run.targets;
  if (!targets.ready)
    run.spoiled = !is_finite(run, 0, job_->layout.total);
  else if (!run.spine_summed)
    for (uint32_t i = 0; i < targets.buckets->runs.size(); ++i)
      tell(run, i);
  run.spoiled = run.spoiled || !losses_are_finite(run.result->leaves);
  run.erred = run.spoiled;
  if (targets.peers != nullptr) // all compute again or nobody does
    run.spoiled = targets.peers->any(run.spoiled);
  return !run.spoiled;
}

/// A value of a leaf that is not finite stays so in every sum that has it.
bool LeafComputer::is_finite(const Serial& run, uint64_t begin,
                             uint64_t end) const {
  const auto& targets = *run.targets;
  for (size_t i = 0; i < targets.nodes.size(); ++i)
    if (filled(run.step, targets.nodes[i])
        && !are_finite(targets.sums[i] + begin, end - begin))
      return false;
  return true;
}

/// By all threads, where a device has several.
bool LeafComputer::are_finite(const float* values, uint64_t count) const {
  if (lanes_.size() == 1)
    return all_finite(values, count);
  constexpr uint64_t block = 64 << 10;
  std::atomic<bool> finite = true;
  executor_.parallel_for((count + block - 1) / block, [&](size_t i, uint32_t) {
    const auto at = i * block;
    if (finite && !all_finite(values + at, std::min(block, count - at)))
      finite = false;
  });
  return finite;
}

/// What was given away is right, and others may be reading it: the rest comes
/// from memory of its own.
void LeafComputer::compute_again(Serial& run) {
  const auto& targets = *run.targets;
  auto& result = *run.result;
  pool_.clear(); // the value may lie there still, where nobody writes
  std::vector<Sum> sums;
  NodeTargets others;
  others.nodes = targets.nodes;
  others.peers = targets.peers;
  for (size_t i = 0; i < targets.nodes.size(); ++i) {
    sums.push_back(take());
    others.sums.push_back(sums.back()->data());
  }
  StepGradient second;
  Serial again;
  again.step = run.step;
  again.parameters = run.parameters;
  again.targets = &others;
  again.result = &second;
  once(again);
  result.leaves = std::move(second.leaves);
  const bool spoiled = !is_finite(again, 0, job_->layout.total)
                       || !losses_are_finite(result.leaves);
  const bool go_on = targets.peers == nullptr || !targets.peers->any(spoiled);
  if (spoiled) {
    result.trouble = not_finite_line(run.step, result.leaves);
    return;
  }
  if (!go_on)
    throw PassAbandoned{}; // the other one says why
  result.computed_twice = run.erred;
  const auto replace = [&](uint64_t begin, uint64_t end) {
    for (size_t i = 0; i < sums.size(); ++i)
      if (filled(run.step, targets.nodes[i]))
        std::copy_n(others.sums[i] + begin, end - begin,
                    targets.sums[i] + begin);
  };
  if (!targets.ready) {
    replace(0, job_->layout.total);
    return;
  }
  for (auto i = run.told; i < targets.buckets->runs.size(); ++i) {
    replace(targets.buckets->runs[i].first, targets.buckets->runs[i].second);
    targets.ready(i);
  }
}

/// Sums `node` into `target`; false: it has no samples.
bool LeafComputer::serial(Serial& run, RankRange node, float* target) {
  if (is_pass(run.step, node))
    return serial_pass(run, node, target);
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

bool LeafComputer::serial_pass(Serial& run, RankRange ranks, float* target) {
  if (!filled(run.step, ranks)) {
    for (auto rank = ranks.lo; rank < ranks.hi; ++rank)
      run.result->leaves.push_back({rank, 0, 0});
    return false;
  }
  const auto& targets = *run.targets;
  if (ranks.hi != run.last + 1 || !targets.ready) {
    compute_pass(run, ranks, target, {});
    return true;
  }
  // Sums go from the leaf upwards, each bucket as its gradient becomes final.
  const std::function<void(uint32_t)> settle = [&](uint32_t bucket) {
    const auto [begin, end] = targets.buckets->runs[bucket];
    for (auto at = run.spine.rbegin(); at != run.spine.rend(); ++at)
      if (at->left_filled)
        add(at->left + begin, at->right + begin, at->left + begin, end - begin);
      else
        std::copy_n(at->right + begin, end - begin, at->left + begin);
    tell(run, bucket);
  };
  BucketProgress progress{*targets.buckets, settle};
  compute_pass(run, ranks, target,
               [&](uint32_t parameter) { progress.parameter(parameter); });
  progress.all();
  run.spine_summed = true;
  return true;
}

void LeafComputer::parallel(uint64_t step, const NodeTargets& targets,
                            const float* parameters, StepGradient& result) {
  const auto first = targets.nodes.front().lo;
  const auto ranks = targets.nodes.back().hi - first;
  std::deque<TreeSums> sums;
  std::vector<size_t> node_of(ranks, targets.nodes.size()); // none: not asked
  std::vector<bool> has_samples(ranks);
  for (size_t i = 0; i < targets.nodes.size(); ++i) {
    sums.emplace_back(targets.nodes[i], job_->layout.total);
    for (auto rank = targets.nodes[i].lo; rank < targets.nodes[i].hi; ++rank) {
      node_of[rank - first] = i;
      has_samples[rank - first] = sampling_.rank(step, rank).count > 0;
    }
  }
  // The permutation is made once, before threads share it.
  sampling_.indices(step, first, lanes_.front().rows);
  result.leaves.resize(ranks);
  std::atomic<uint32_t> begun = 0;
  const auto compute = [&](size_t i, uint32_t thread) {
    ++begun;
    const auto rank = first + static_cast<uint32_t>(i);
    result.leaves[i] = {rank, 0, 0};
    const auto in = node_of[i];
    if (in == targets.nodes.size())
      return;
    TreeSums::Sum sum;
    if (has_samples[i]) {
      if (rank == targets.nodes[in].lo)
        sum.values = targets.sums[in];
      else
        sum = sum_for_thread();
      result.leaves[i] = leaf(step, {rank, rank + 1}, parameters, lane(thread),
                              sum.values);
    }
    sums[in].put(rank, std::move(sum), begun < ranks);
  };
  if (lock_step_)
    in_lock_step(first, has_samples, targets.peers, compute);
  else
    executor_.parallel_for(ranks, compute);
  std::erase_if(result.leaves, [&](const LeafLoss& leaf) {
    return node_of[leaf.virtual_rank - first] == targets.nodes.size();
  });
  for (size_t i = 0; i < targets.nodes.size(); ++i) {
    const auto sum = sums[i].whole(executor_);
    if (sum.values != nullptr && sum.values != targets.sums[i])
      std::copy_n(sum.values, job_->layout.total, targets.sums[i]);
  }
}

/// All leaves at once, from rank `first` on, each on a thread and in memory of
/// its own: they wait for each other. Errors: the first of any.
void LeafComputer::in_lock_step(
  uint32_t first, const std::vector<bool>& has_samples, RankPeers* peers,
  const std::function<void(size_t, uint32_t)>& compute) {
  kernels::require(peers != nullptr
                     || has_samples.size() == job_->options.virtual_ranks,
                   "statistics over some of the virtual ranks");
  std::vector<uint32_t> filled;
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < has_samples.size(); ++i)
    if (has_samples[i]) {
      lane(static_cast<uint32_t>(filled.size()));
      filled.push_back(i);
      ranks.push_back(first + i);
    } else {
      compute(i, i);
    }
  statistics_ = std::make_shared<RankStatistics>(job_->options.virtual_ranks,
                                                 ranks, peers);
  std::mutex mutex;
  std::exception_ptr failure;
  const auto guarded = [&](const auto& work) {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock{mutex};
      if (!failure)
        failure = std::current_exception();
      statistics_->abandon();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(filled.size());
  for (uint32_t at = 0; at < filled.size(); ++at)
    guarded([&] { // there may be no thread for it
      threads.emplace_back(
        [&, at] { guarded([&] { compute(filled[at], at); }); });
    });
  for (auto& thread : threads)
    thread.join();
  statistics_.reset();
  if (failure)
    std::rethrow_exception(failure);
}

TreeSums::Sum LeafComputer::sum_for_thread() {
  const std::lock_guard lock{pool_mutex_};
  auto sum = take();
  return {sum->data(), sum};
}

LeafComputer::Sum LeafComputer::take() {
  for (auto& buffer : pool_)
    if (sole_owner(buffer))
      return buffer;
  auto buffer = std::make_shared<SumBuffer>(job_->layout.total, memory_.get());
  pool_.push_back(buffer);
  return buffer;
}

} // namespace troupe
