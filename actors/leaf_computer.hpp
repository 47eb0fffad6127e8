#pragma once

#include "actors/gradient_buckets.hpp"
#include "actors/job.hpp"
#include "actors/links/link_memory.hpp"
#include "actors/messages.hpp"
#include "kernels/executor.hpp"
#include "kernels/replica.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

class StepRows;

/// A flat gradient by Job::layout, aligned to 64 bytes; in shared memory where
/// there is some.
class SumBuffer {
public:
  SumBuffer(size_t count, LinkMemory* memory);
  float* data() { return values_.get(); }
  const float* data() const { return values_.get(); }
  size_t size() const { return count_; } ///< elements

private:
  std::shared_ptr<float> values_;
  size_t count_;
};

/// The gradient sum of one tree node, flat by Job::layout; null when none of
/// its virtual ranks has a sample in the step (the identity, PROTOCOL 2).
struct NodeSum {
  RankRange node;
  std::shared_ptr<const SumBuffer> sum;
  std::shared_ptr<const StepRows> rows = {}; ///< null without sparse tables
  /// By slice, what is sent instead of the sum; null: nothing is packed.
  std::shared_ptr<const std::vector<TensorView>> packed = {};

  /// A view of `count` elements at `offset`; empty for the identity.
  TensorView view(uint64_t offset, uint64_t count) const;
};

/// Called from the executor with each bucket, in order, when its run of the
/// nodes' sums is final; nothing else of them is.
using NodesReady =
  std::function<void(uint32_t bucket, const std::vector<NodeSum>& nodes)>;

/// What a worker computed of one step.
struct StepGradient {
  uint64_t step = 0;
  std::vector<NodeSum> nodes;
  std::vector<LeafLoss> leaves;
  double seconds = 0;
  std::string trouble; ///< a loss that is not finite: the user's line
};

/// Where the sums of a step's nodes go. Shapes: sums [nodes] flat buffers by
/// Job::layout, aligned to 64 bytes; gaps are left alone.
struct NodeTargets {
  std::vector<RankRange> nodes; ///< left to right
  std::vector<float*> sums;
  const GradientBuckets* buckets = nullptr;
  BucketReady ready; ///< empty: nobody asks before all is done
};

/// Computes the leaves of virtual ranks and sums them along the tree up to
/// given nodes, on an executor's threads. Bits depend on (seed, step, virtual
/// rank) and the parameters only: each rank is its own micro-batch. With
/// `--reduction fast` and one thread a node is one micro-batch, of all its
/// ranks' samples.
class LeafComputer {
public:
  /// Sums are made in `memory` where there is some, so that they can be lent.
  LeafComputer(std::shared_ptr<const Job> job,
               std::shared_ptr<const Dataset> data, Executor& executor,
               DeviceId device, std::shared_ptr<LinkMemory> memory = nullptr);

  /// Computes the given nodes of `step` into buffers of its own. Call from a
  /// task of the executor. `parameters` is flat by Job::layout.
  /// With sparse tables the step's rows, whose values `parameters` has, say
  /// where; they have the nodes' samples. Buckets (null: nobody asks) become
  /// ready as below.
  StepGradient compute(uint64_t step, const std::vector<RankRange>& nodes,
                       const float* parameters,
                       std::shared_ptr<const StepRows> rows = {},
                       const GradientBuckets* buckets = nullptr,
                       const NodesReady& ready = {});

  /// The same into the caller's; a node without samples leaves its buffer
  /// alone. The result has no nodes. Buckets become ready while the last leaf's
  /// backward pass goes on, where one thread computes it.
  StepGradient compute(uint64_t step, const NodeTargets& targets,
                       const float* parameters);

private:
  using Sum = std::shared_ptr<SumBuffer>;

  struct Lane { // what one thread works with
    std::unique_ptr<Replica> replica;
    std::unique_ptr<BatchMemory> batch;
    std::vector<uint32_t> rows;
  };
  /// A sum that waits for the last leaf: left += right, run by run.
  struct Pending {
    float* left = nullptr;
    const float* right = nullptr;
    bool left_filled = false;
  };
  /// One call of compute() by one thread.
  struct Serial {
    uint64_t step = 0;
    const float* parameters = nullptr;
    const NodeTargets* targets = nullptr;
    uint32_t last = 0; ///< the last rank of the last node
    std::vector<Pending> spine;
    bool spine_summed = false;
    StepGradient* result = nullptr;
  };

  Lane& lane(uint32_t thread);
  LeafLoss leaf(uint64_t step, RankRange ranks, const float* parameters,
                Lane& lane, float* gradient, const ParameterReady& ready = {});
  bool filled(uint64_t step, RankRange ranks) const;
  bool serial(Serial& run, RankRange node, float* target);
  bool serial_leaf(Serial& run, RankRange ranks, float* target);
  void parallel(uint64_t step, const NodeTargets& targets,
                const float* parameters, StepGradient& result);
  float* reduce(RankRange node, uint32_t first, std::vector<float*>& leaves);
  Sum take();

  std::shared_ptr<const Job> job_;
  std::shared_ptr<const Dataset> data_;
  Executor& executor_;
  DeviceId device_;
  Sampling sampling_;
  bool whole_nodes_;                          ///< a node is one micro-batch
  uint32_t rows_;                             ///< of the largest micro-batch
  std::shared_ptr<const StepRows> step_rows_; ///< of the step in hand
  std::vector<Lane> lanes_;
  std::shared_ptr<LinkMemory> memory_;
  std::vector<Sum> pool_;
};

/// Parses "cpu:0" or "cuda:1"; the text was checked when the job was made.
DeviceId parse_device(const std::string& text);

} // namespace troupe
