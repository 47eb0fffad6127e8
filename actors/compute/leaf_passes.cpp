// The part of LeafComputer that is one pass of a replica.

#include "actors/compute/leaf_computer.hpp"
#include "actors/compute/rank_statistics.hpp"
#include "actors/compute/step_rows.hpp"
#include "kernels/numbers/random.hpp"
#include "kernels/records/decode_time.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

/// Steps that readers are asked for beforehand: one is on its way while the
/// other is computed.
constexpr uint64_t supplied_steps = 2;

/// As a computation does that does not fit into the process's limit: the kernel
/// refuses it (RLIMIT_AS).
[[noreturn]] void ask_for_too_much() {
  constexpr rlim_t room = rlim_t{64} << 20;
  rlim_t pages = 0;
  std::ifstream{"/proc/self/statm"} >> pages;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + room;
  setrlimit(RLIMIT_AS, &limit);
  ::operator delete(::operator new(2 * room));
  throw std::bad_alloc{}; // of a kernel that keeps no such limit
}

} // namespace

uint64_t LeafComputer::samples(uint64_t step, RankRange ranks) const {
  uint64_t sum = 0;
  for (auto rank = ranks.lo; rank < ranks.hi; ++rank)
    sum += sampling_.rank(step, rank).count;
  return sum;
}

bool LeafComputer::filled(uint64_t step, RankRange ranks) const {
  return samples(step, ranks) > 0;
}

/// The samples of all ranks, one rank's after another's.
void LeafComputer::list_samples(uint64_t step, RankRange ranks,
                                std::vector<uint64_t>& rows) {
  const std::lock_guard guard{order_};
  sampling_.indices(step, ranks.lo, rows);
  std::vector<uint64_t> more;
  for (auto rank = ranks.lo + 1; rank < ranks.hi; ++rank) {
    sampling_.indices(step, rank, more);
    rows.insert(rows.end(), more.begin(), more.end());
  }
}

DataPass LeafComputer::pass_of(uint64_t step) const {
  return {job_->options.seed, sampling_.step(step).data_epoch};
}

Batch LeafComputer::gather(uint64_t step, RankRange ranks, Lane& lane) {
  list_samples(step, ranks, lane.rows);
  const auto rows = static_cast<uint32_t>(lane.rows.size());
  await_samples(step, lane);
  expect_next(step, ranks);
  if (step_rows_)
    step_rows_->renumber(lane.batch->ids(), rows * job_->graph.ids());
  const auto key = kernels::batch_key(job_->options.seed, step, ranks.lo);
  auto batch = lane.batch->batch(rows, key);
  batch.gate = gate_;
  batch.step = whole_step(step);
  return batch;
}

/// Has the lane's rows in its batch; also a wait that is given up counts.
void LeafComputer::await_samples(uint64_t step, Lane& lane) {
  struct Wait {
    SteadyClock::time_point begin = SteadyClock::now();
    double decoded = DecodeTimer::seconds(); ///< before
    uint64_t step;
    Lane& lane;
    FlightRecorder* flight;
    ~Wait() {
      const auto end = SteadyClock::now();
      const auto waited = std::chrono::duration<double>{end - begin}.count();
      // What is measured of one sample may be more, for all of a few.
      lane.data += {waited, std::min(waited, DecodeTimer::seconds() - decoded)};
      if (flight != nullptr && end - begin >= shortest_data_wait)
        flight->record(Activity::data, begin, end, step + 1);
    }
  } wait{.step = step, .lane = lane, .flight = flight_.get()};
  data_->gather(lane.rows.data(), static_cast<uint32_t>(lane.rows.size()),
                *lane.batch, pass_of(step));
}

DataTime LeafComputer::take_data_time() {
  DataTime longest;
  for (auto& lane : lanes_)
    if (const auto own = std::exchange(lane.data, {}); own.wait > longest.wait)
      longest = own;
  return longest;
}

/// Of samples elsewhere those that these ranks will most likely read next are
/// fetched during this pass.
void LeafComputer::expect_next(uint64_t step, RankRange ranks) {
  if (job_->options.synchronisation == Synchronisation::async)
    return;
  const auto last = step + (data_->supply ? supplied_steps : 1);
  for (auto next = step + 1; next <= last; ++next)
    expect(next, ranks, step);
}

/// Another epoch's order is not made for that.
void LeafComputer::expect(uint64_t step, RankRange ranks, uint64_t during) {
  if (!data_->is_elsewhere() || step >= job_->total_steps
      || sampling_.step(step).data_epoch != sampling_.step(during).data_epoch)
    return;
  std::vector<uint64_t> rows;
  list_samples(step, ranks, rows);
  data_->expect(rows.data(), static_cast<uint32_t>(rows.size()), pass_of(step));
}

/// What the running statistics of a step's leaves are taken over. An update
/// that is made of one leaf alone, or of those that came in time, or of leaves
/// that depend on who is there: over each leaf.
WholeStep LeafComputer::whole_step(uint64_t step) const {
  if (whole_nodes_ || job_->options.backup_workers > 0
      || job_->options.synchronisation == Synchronisation::async)
    return {};
  return {sampling_.step(step).count, sampling_.filled(step)};
}

/// What a fault does to the pass that begins: the device fails, or there is no
/// memory. Returns whether a value is to become NaN.
bool LeafComputer::strike() {
  const auto harm = faults_ ? faults_->take_harm() : FaultTrigger::Harm::none;
  if (harm == FaultTrigger::Harm::failure)
    throw std::runtime_error("the device fails: uncorrectable memory error, as "
                             "was asked for");
  if (harm == FaultTrigger::Harm::memory)
    ask_for_too_much();
  return harm != FaultTrigger::Harm::none;
}

/// Half-way through the backward part of the pass that begins.
ParameterReady LeafComputer::harmed(float* gradient,
                                    const ParameterReady& ready) {
  if (!strike())
    return ready;
  return
    [this, gradient, &ready, left = job_->worker_graph.parameters.size() / 2](
      uint32_t parameter) mutable {
      if (left-- == 0)
        gradient[job_->layout.offsets[parameter]] =
          std::numeric_limits<float>::quiet_NaN();
      if (ready)
        ready(parameter);
    };
}

LeafLoss LeafComputer::leaf(uint64_t step, RankRange ranks,
                            const float* parameters, Lane& lane,
                            float* gradient, const ParameterReady& ready) {
  auto batch = gather(step, ranks, lane);
  if (statistics_)
    batch.exchange = &statistics_->of(ranks.lo);
  const auto stats = lane.replica->gradient(parameters, batch, gradient,
                                            harmed(gradient, ready));
  return {ranks.lo, stats.loss_sum, batch.rows};
}

LeafLoss LeafComputer::push_pass(ResidentReplica& device, uint64_t step,
                                 RankRange ranks, uint32_t place) {
  auto& memory = lanes_.front();
  if (!memory.batch)
    memory.batch = std::make_unique<BatchMemory>(job_->graph, rows_);
  const auto batch = gather(step, ranks, memory);
  const bool spoils = strike();
  device.push_gradient(batch, place);
  return {ranks.lo, spoils ? std::numeric_limits<double>::quiet_NaN() : 0.0,
          batch.rows};
}

/// All leaves of a node in one pass.
std::vector<LeafLoss> LeafComputer::stacked(uint64_t step, RankRange node,
                                            const float* parameters, Lane& lane,
                                            float* gradient,
                                            const ParameterReady& ready) {
  const auto batch = gather(step, node, lane);
  lane.leaves.clear();
  stack(step, node, lane.leaves);
  const auto stats = lane.replica->gradient(parameters, batch, lane.leaves,
                                            gradient, harmed(gradient, ready));
  std::vector<LeafLoss> losses;
  auto next = stats.begin();
  for (auto rank = node.lo; rank < node.hi; ++rank) {
    const auto rows = sampling_.rank(step, rank).count;
    losses.push_back({rank, rows > 0 ? (next++)->loss_sum : 0, rows});
  }
  return losses;
}

/// Lists the node's leaves that have samples; false: there are none.
bool LeafComputer::stack(uint64_t step, RankRange node,
                         std::vector<StackedLeaf>& leaves) {
  if (node.size() > 1) {
    const auto [left, right] = children(node);
    const bool has_left = stack(step, left, leaves);
    const bool has_right = stack(step, right, leaves);
    if (has_left && has_right)
      ++leaves.back().merges;
    return has_left || has_right;
  }
  const auto rows = sampling_.rank(step, node.lo).count;
  if (rows > 0)
    leaves.push_back(
      {rows, kernels::batch_key(job_->options.seed, step, node.lo), 0});
  return rows > 0;
}

/// Whether one pass computes the node.
bool LeafComputer::is_pass(uint64_t step, RankRange node) const {
  return node.size() == 1 || whole_nodes_
         || (stacked_rows_ > 0 && samples(step, node) <= stacked_rows_);
}

void LeafComputer::compute_pass(Serial& run, RankRange ranks, float* target,
                                const ParameterReady& ready) {
  auto& leaves = run.result->leaves;
  auto& mine = lane(0);
  if (ranks.size() > 1 && !whole_nodes_) {
    for (const auto& loss :
         stacked(run.step, ranks, run.parameters, mine, target, ready))
      leaves.push_back(loss);
    return;
  }
  leaves.push_back(leaf(run.step, ranks, run.parameters, mine, target, ready));
  // The samples of all ranks count as the first one's.
  for (auto rank = ranks.lo + 1; rank < ranks.hi; ++rank)
    leaves.push_back({rank, 0, 0});
}

} // namespace troupe
