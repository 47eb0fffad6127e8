#pragma once

#include "actors/job.hpp"
#include "actors/messages.hpp"
#include "kernels/buffer.hpp"
#include "kernels/executor.hpp"
#include "kernels/replica.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// The gradient sum of one tree node, flat by Job::layout; null when none of
/// its virtual ranks has a sample in the step (the identity, PROTOCOL 2).
struct NodeSum {
  RankRange node;
  std::shared_ptr<const Buffer> sum;

  /// A view of `count` elements at `offset`; empty for the identity.
  TensorView view(uint64_t offset, uint64_t count) const;
};

/// What a worker computed of one step.
struct StepGradient {
  uint64_t step = 0;
  std::vector<NodeSum> nodes;
  std::vector<LeafLoss> leaves;
  double seconds = 0;
  std::string trouble; ///< a loss that is not finite: the user's line
};

/// Computes the leaves of virtual ranks and sums them along the tree up to
/// given nodes, on an executor's threads. Bits depend on (seed, step, virtual
/// rank) and the parameters only: each rank is its own micro-batch.
class LeafComputer {
public:
  LeafComputer(std::shared_ptr<const Job> job,
               std::shared_ptr<const Dataset> data, Executor& executor,
               DeviceId device);

  /// Computes the given nodes of `step`. Call from a task of the executor.
  /// `parameters` is flat by Job::layout.
  StepGradient compute(uint64_t step, const std::vector<RankRange>& nodes,
                       const float* parameters);

private:
  using Sum = std::shared_ptr<Buffer>;

  struct Lane { // what one thread works with
    std::unique_ptr<Replica> replica;
    std::unique_ptr<BatchMemory> batch;
    std::vector<uint32_t> rows;
  };

  Lane& lane(uint32_t thread);
  LeafLoss leaf(uint64_t step, uint32_t rank, const float* parameters,
                Lane& lane, Buffer& gradient);
  Sum serial(uint64_t step, RankRange node, const float* parameters,
             StepGradient& result);
  Sum reduce(RankRange node, uint32_t first, std::vector<Sum>& leaves);
  Sum take();

  std::shared_ptr<const Job> job_;
  std::shared_ptr<const Dataset> data_;
  Executor& executor_;
  DeviceId device_;
  Sampling sampling_;
  std::vector<Lane> lanes_;
  std::vector<Sum> pool_;
};

/// Parses "cpu:0" or "cuda:1"; the text was checked when the job was made.
DeviceId parse_device(const std::string& text);

} // namespace troupe
