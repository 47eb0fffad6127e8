#pragma once

#include "actors/compute/leaf_tree.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/role/context.hpp"
#include "actors/shard/shard_store.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/engine/stage_replica.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// A stage without its actor: its layers' passes and updates. All calls from
/// tasks of the executor, or while it is idle, but part().
class StageSteps {
public:
  StageSteps(const RoleContext& context, Executor& executor,
             std::shared_ptr<ShardStore> store);

  const GraphPart& part() const { return replica_->part(); }
  bool is_first() const { return part().ops.begin == 0; }
  bool is_last() const { return part().ops.end == job_.graph.ops.size(); }

  /// What is held of the slices that this stage keeps.
  std::vector<SliceState> held() const;
  /// Goes back to a checkpoint; null: to version 0.
  /// Errors: InputError where it cannot be read.
  void reset(const std::shared_ptr<const Beginning>& beginning);
  /// An epoch begins at a version that is held; what is left of a step is gone.
  void enter(uint64_t version, uint64_t epoch);

  /// A step of the version in hand begins. `shared`: the parameters that come
  /// from the stage before, [parameter_elements of part().in]. Returns those
  /// for the stage after; empty where nothing crosses.
  TensorView begin_step(uint64_t step, const float* shared);

  /// What became of a pass.
  struct Pass {
    TensorView values; ///< for the neighbour
    LeafLoss loss;     ///< of the last stage's forward pass
  };
  /// Takes micro-batch `number` of the step, of a virtual rank, forward.
  /// Shapes: as StageReplica::forward().
  Pass forward(uint32_t number, uint32_t rank, const float* in);
  Pass backward(uint32_t number, uint32_t rank, const float* from_next);
  /// The same in halves: the second gives no values.
  Pass backward_inputs(uint32_t number, uint32_t rank, const float* from_next);
  Pass backward_weights(uint32_t number, uint32_t rank);
  /// All micro-batches are back: the block sums of this stage's slices in a
  /// round, slice after slice (slice_sums()).
  std::vector<double> sums(ScalarRoundKind round, const StepScalars& scalars);
  /// The step's update, to the next version.
  /// Returns why it cannot be, one line; empty: it is done.
  std::string update(const StepScalars& scalars);

  /// The slices of a version that is held.
  std::vector<SnapshotSlice> snapshot(uint64_t version) const;

private:
  UpdateMoment moment() const;
  /// Points an update, or its sums, at a slice as the step finds it.
  UpdateArgs arguments(const Slice& slice, const StepScalars& scalars) const;
  uint32_t slot_of(uint32_t number) const {
    return static_cast<uint32_t>(number % batches_.size());
  }
  uint64_t elements_back(uint32_t rank) const;
  Batch gather(uint32_t number, uint32_t rank);
  std::shared_ptr<float> take(size_t count) const;
  void load(uint64_t version);
  TensorView shared_on(const float* shared) const;
  bool reads_samples() const;

  RoleContext context_;
  const Job& job_;
  Executor& executor_;
  std::shared_ptr<ShardStore> store_;
  std::vector<uint32_t> slices_;
  Sampling sampling_;
  std::unique_ptr<StageReplica> replica_;
  bool reads_samples_;
  std::vector<BatchMemory> batches_; ///< by slot
  std::vector<uint32_t> rows_;       ///< of the micro-batch in hand
  Buffer parameters_; ///< of the version in hand, flat by the stage's layout
  LeafTree sums_;
  uint64_t step_ = 0;
};

} // namespace troupe
