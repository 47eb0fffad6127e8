#pragma once

#include "actors/compute/gradient_buckets.hpp"
#include "actors/control/peer_directory.hpp"
#include "actors/job/chain_routes.hpp"
#include "actors/role/context.hpp"
#include "actors/worker/metrics.hpp"
#include "actors/worker/rows.hpp"
#include "actors/worker/sent_nodes.hpp"

#include <utility>
#include <vector>

namespace troupe {

/// A worker's pushes: what it computed goes to the heads of the slices' chains,
/// each node once an epoch. Dense slices may leave while the backward pass goes
/// on, bucket by bucket, so that shards sum and update meanwhile.
///
/// All workers send slices in one order, and all nodes of a slice at once: a
/// shard lets go of what it holds of a slice when its tree is whole, and then
/// credit comes back (link_terms()). In two orders each could fill its window
/// with what waits for the other. Touched by the worker's actor.
/// Source: Li et al., "PyTorch Distributed", VLDB 2020, for buckets that leave
/// while the backward pass goes on.
class WorkerPushes {
public:
  WorkerPushes(const RoleContext& context, const PeerDirectory& shards,
               WorkerMetrics& metrics)
    : context_(context),
      job_(*context.job),
      shards_(shards),
      metrics_(metrics),
      buckets_(make_buckets(job_.worker_graph, job_.layout, bucket_bytes())),
      slices_(buckets_.runs.size()),
      there_(job_.plan.slices.size()) {
    for (const auto& slice : job_.plan.slices)
      if (slice.sparse())
        sparse_.push_back(slice.id);
      else
        slices_[buckets_.of_parameter[slice.variable]].push_back(slice.id);
  }

  /// An epoch begins: whom pushes go to, and what the owners have.
  void begin_epoch(std::vector<uint32_t> heads,
                   const std::vector<SliceState>& held) {
    heads_ = std::move(heads);
    there_.begin_epoch(held);
    next_ = 0;
  }
  /// All owners have the version that the step before made.
  void begin_step() {
    there_.begin_step();
    next_ = 0;
  }
  /// The version that the newest pushes make is here.
  void arrived() {
    if (const auto seconds = exchange_.end(metrics_.push))
      context_.record(Activity::push, *seconds, 0);
  }
  /// Seconds that took, once.
  double take_seconds() { return exchange_.take(); }

  /// What can leave early; null: nothing, the gradient is one bucket, or packed
  /// as a whole.
  const GradientBuckets* early() const {
    return buckets_.runs.size() > 1 && job_.options.compress == "none"
             ? &buckets_
             : nullptr;
  }
  /// This bucket and those before it are final in all `sums`: sends them.
  template <class Self>
  void push_bucket(Self* self, const Fence& fence, uint64_t step,
                   const std::vector<NodeSum>& sums, uint32_t bucket) {
    for (; next_ <= bucket; ++next_)
      push(self, fence, step, sums, slices_[next_]);
  }
  /// Sends what the owners have not: the worker has all that it is to have.
  template <class Self>
  void push_missing(Self* self, const Fence& fence, uint64_t step,
                    const std::vector<NodeSum>& sums) {
    for (const auto& bucket : slices_)
      push(self, fence, step, sums, bucket);
    push(self, fence, step, sums, sparse_);
  }
  /// Sends a slice of a node's sum, if its owner has not got it.
  template <class Self>
  void push_slice(Self* self, const Fence& fence, uint64_t step, RankRange node,
                  uint32_t slice, TensorView values) {
    if (there_.has(slice, step, node))
      return;
    exchange_.begin();
    there_.sent(slice, step, node);
    send(self, Push{fence, step, node, slice, std::move(values)});
  }
  template <class Self, class Message>
  void send(Self* self, Message push) {
    metrics_.pushed.add(static_cast<double>(push.values.bytes()));
    self->send(shards_.at<shard_actor>(heads_[push.slice]), std::move(push));
    context_.faults->pass(StepPhase::push);
  }

private:
  uint64_t bucket_bytes() const {
    constexpr double mib = 1 << 20;
    const auto given = job_.options.bucket_mb;
    return static_cast<uint64_t>((given > 0 ? given : 1) * mib);
  }

  template <class Self>
  void push(Self* self, const Fence& fence, uint64_t step,
            const std::vector<NodeSum>& sums,
            const std::vector<uint32_t>& slices) {
    for (auto id : slices)
      if (job_.plan.on_shards(id))
        push_sums(self, fence, step, sums, job_.plan.slices[id]);
  }

  template <class Self>
  void push_sums(Self* self, const Fence& fence, uint64_t step,
                 const std::vector<NodeSum>& sums, const Slice& slice) {
    for (const auto& sum : sums)
      if (!there_.has(slice.id, step, sum.node))
        push_slice(self, fence, step, sum.node, slice.id,
                   pushed_values(job_, sum, slice));
  }

  const RoleContext& context_;
  const Job& job_;
  const PeerDirectory& shards_;
  WorkerMetrics& metrics_;
  const GradientBuckets buckets_;
  std::vector<std::vector<uint32_t>> slices_; ///< dense ones, by bucket
  std::vector<uint32_t> sparse_;
  uint32_t next_ = 0;           ///< bucket to leave early
  std::vector<uint32_t> heads_; ///< by slice
  SentNodes there_;
  Exchange exchange_;
};

} // namespace troupe
