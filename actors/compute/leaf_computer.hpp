#pragma once

#include "actors/compute/fault_trigger.hpp"
#include "actors/compute/gradient_buckets.hpp"
#include "actors/compute/step_gradient.hpp"
#include "actors/compute/tree_sums.hpp"
#include "actors/job/job.hpp"
#include "actors/process/flight_recorder.hpp"
#include "kernels/engine/executor.hpp"
#include "kernels/engine/parameter_gate.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/optimizer/resident_replica.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe {

class RankPeers;
class RankStatistics;

/// Where the sums of a step's nodes go. Shapes: sums [nodes] flat buffers by
/// Job::layout, aligned to 64 bytes; gaps are left alone.
struct NodeTargets {
  std::vector<RankRange> nodes; ///< left to right
  std::vector<float*> sums;
  const GradientBuckets* buckets = nullptr;
  BucketReady ready; ///< empty: nobody asks before all is done
  /// Of a model with cross_replica, who computes the other ranks; null: nobody
  /// else does. Then `ready` is empty.
  RankPeers* peers = nullptr;
};

/// Computes the leaves of virtual ranks and sums them along the tree up to
/// given nodes, on an executor's threads. Bits depend on (seed, step, virtual
/// rank) and the parameters only: each rank is its own micro-batch. With
/// `--reduction fast` and one thread a node is one micro-batch, of all its
/// ranks' samples. Where the graph lets it, one thread computes the leaves of a
/// node that has few rows in one pass, with the bits of one after another.
/// Nothing that is not finite is given away: then all leaves are computed once
/// more. Bits that come out finite are right ones, since they depend on nothing
/// else: the machine had erred. Otherwise it is the model, or the data.
class LeafComputer {
public:
  /// Sums are made in `memory` where there is some, so that they can be lent.
  /// `faults` may strike leaves. `flight` keeps when samples were waited for.
  LeafComputer(std::shared_ptr<const Job> job,
               std::shared_ptr<const Dataset> data, Executor& executor,
               DeviceId device, std::shared_ptr<LinkMemory> memory = nullptr,
               std::shared_ptr<FaultTrigger> faults = nullptr,
               std::shared_ptr<FlightRecorder> flight = nullptr);

  /// Computes the given nodes of `step` into buffers of its own. Call from a
  /// task of the executor. `parameters` is flat by Job::layout.
  /// With sparse tables the step's rows, whose values `parameters` has, say
  /// where; they have the nodes' samples. Buckets (null: nobody asks) become
  /// ready as below. Behind a gate it begins at once and waits for each
  /// parameter where it is first read; nothing is ready before all are there.
  /// `peers` as in NodeTargets.
  StepGradient
  compute(uint64_t step, const std::vector<RankRange>& nodes,
          const float* parameters, std::shared_ptr<const StepRows> rows = {},
          const GradientBuckets* buckets = nullptr,
          const NodesReady& ready = {}, ParameterGate* gate = nullptr,
          RankPeers* peers = nullptr);

  /// The same into the caller's; a node without samples leaves its buffer
  /// alone. The result has no nodes. Buckets become ready while the last leaf's
  /// backward pass goes on, where one thread computes it.
  StepGradient compute(uint64_t step, const NodeTargets& targets,
                       const float* parameters);

  /// Says that these ranks of a step are computed soon: their samples are
  /// fetched meanwhile, where they lie elsewhere and `during` is a step of the
  /// same data epoch. Call from a task of the executor.
  void expect(uint64_t step, RankRange ranks, uint64_t during);

  /// Whether the leaves of a node are one pass, in any order.
  bool in_any_order() const { return whole_nodes_; }
  /// Whether ranks have samples in a step.
  bool filled(uint64_t step, RankRange ranks) const;
  /// Begins a pass over ranks, which have samples, and whose gradient a device
  /// keeps. All samples count as the first rank's; the loss is the device's to
  /// tell, later, where it is not spoiled already.
  LeafLoss push_pass(ResidentReplica& device, uint64_t step, RankRange ranks,
                     uint32_t place);
  uint32_t max_rows() const { return rows_; } ///< of one pass
  /// What samples took passes since this was asked last: of the thread that
  /// waited longest.
  DataTime take_data_time();

private:
  using Sum = std::shared_ptr<SumBuffer>;

  struct Lane { // what one thread works with
    std::unique_ptr<Replica> replica;
    std::unique_ptr<BatchMemory> batch;
    std::vector<uint64_t> rows;
    std::vector<StackedLeaf> leaves;
    DataTime data; ///< that is not taken yet
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
    uint32_t told = 0; ///< buckets that are given away; the first is next
    bool spoiled = false;
    bool erred = false; ///< spoiled by what this member computed
  };

  Lane& lane(uint32_t thread);
  void list_samples(uint64_t step, RankRange ranks,
                    std::vector<uint64_t>& rows);
  DataPass pass_of(uint64_t step) const;
  Batch gather(uint64_t step, RankRange ranks, Lane& lane);
  void await_samples(uint64_t step, Lane& lane);
  void expect_next(uint64_t step, RankRange ranks);
  WholeStep whole_step(uint64_t step) const;
  bool strike();
  ParameterReady harmed(float* gradient, const ParameterReady& ready);
  LeafLoss leaf(uint64_t step, RankRange ranks, const float* parameters,
                Lane& lane, float* gradient, const ParameterReady& ready = {});
  std::vector<LeafLoss> stacked(uint64_t step, RankRange node,
                                const float* parameters, Lane& lane,
                                float* gradient, const ParameterReady& ready);
  bool stack(uint64_t step, RankRange node, std::vector<StackedLeaf>& leaves);
  bool is_pass(uint64_t step, RankRange node) const;
  uint64_t samples(uint64_t step, RankRange ranks) const;
  bool serial(Serial& run, RankRange node, float* target);
  bool serial_pass(Serial& run, RankRange ranks, float* target);
  void compute_pass(Serial& run, RankRange ranks, float* target,
                    const ParameterReady& ready);
  void in_lock_step(uint32_t first, const std::vector<bool>& has_samples,
                    RankPeers* peers,
                    const std::function<void(size_t, uint32_t)>& compute);
  void parallel(uint64_t step, const NodeTargets& targets,
                const float* parameters, StepGradient& result);
  void once(Serial& run);
  void tell(Serial& run, uint32_t bucket);
  void compute_again(Serial& run);
  bool is_finite(const Serial& run, uint64_t begin, uint64_t end) const;
  bool are_finite(const float* values, uint64_t count) const;
  bool all_told(Serial& run);
  TreeSums::Sum sum_for_thread();
  Sum take();

  std::shared_ptr<const Job> job_;
  std::shared_ptr<const Dataset> data_;
  Executor& executor_;
  DeviceId device_;
  std::shared_ptr<void> open_; ///< the device, before there is a replica
  Sampling sampling_;
  std::mutex order_;       ///< of the samples, which threads ask it for
  bool lock_step_ = false; ///< leaves go together: cross_replica
  bool whole_nodes_;       ///< a node is one micro-batch
  uint32_t stacked_rows_;  ///< that leaves may have in one pass
  uint32_t rows_;          ///< of the largest pass
  std::shared_ptr<const StepRows> step_rows_; ///< of the step in hand
  ParameterGate* gate_ = nullptr;             ///< the same
  std::vector<Lane> lanes_; ///< by thread, or filled leaf in lock step
  std::shared_ptr<RankStatistics> statistics_; ///< of leaves in lock step
  std::shared_ptr<LinkMemory> memory_;
  std::mutex pool_mutex_; ///< threads ask it for some at once
  std::vector<Sum> pool_;
  std::shared_ptr<FaultTrigger> faults_;   ///< null: none
  std::shared_ptr<FlightRecorder> flight_; ///< the same
};

/// Parses "cpu:0", "cuda:1" or "pjrt:FILE.so:0"; the text was checked when the
/// job was made.
DeviceId parse_device(const std::string& text);
/// The library whose device it is, of those that have one; else empty.
std::string plugin_of_device(const std::string& text);

} // namespace troupe
