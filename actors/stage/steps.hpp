#pragma once

#include "actors/stage/split_steps.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "strategies/pipeline_schedule.hpp"

#include <memory>
#include <vector>

namespace troupe {

/// A stage without its actor: the passes of its layers, which are one part of
/// the model or, of an interleaved schedule, a part for each chunk; and their
/// updates. All calls from tasks of the executor, or while it is idle, but
/// chunks() and part().
class StageSteps : public SplitSteps {
public:
  StageSteps(const RoleContext& context, Executor& executor,
             std::shared_ptr<ShardStore> store);

  uint32_t chunks() const { return static_cast<uint32_t>(parts_.size()); }
  const GraphPart& part(uint32_t chunk) const {
    return parts_[chunk].replica->part();
  }
  /// Whether a chunk begins, or ends, the model.
  bool is_first(uint32_t chunk) const { return part(chunk).ops.begin == 0; }
  bool is_last(uint32_t chunk) const {
    return part(chunk).ops.end == job_.graph.ops.size();
  }

  /// Takes the parameters that come from the part before a chunk's,
  /// [parameter_elements of its part().in], before its first pass. Returns
  /// those for the part after; empty where nothing crosses.
  TensorView share(uint32_t chunk, const float* shared);

  /// What became of a pass.
  struct Pass {
    TensorView values; ///< for the neighbour; of weights none
    LeafLoss loss;     ///< of the last part's forward pass
  };
  /// Does what the schedule says, with a micro-batch of a virtual rank; with
  /// one that has no samples, nothing.
  /// Shapes: in, what comes from a neighbour, as StageReplica has it.
  Pass pass(const StageAction& action, uint32_t rank, const float* in);

private:
  struct Part {
    /// Of micro-batch `number` of a step.
    uint32_t slot_of(uint32_t number) const {
      return static_cast<uint32_t>(number % batches.size());
    }

    std::unique_ptr<StageReplica> replica;
    bool reads_samples = false;
    std::vector<BatchMemory> batches; ///< by slot
  };

  void abandon() override;

  void add_part(uint32_t index);
  Pass forward(const StageAction& action, uint32_t rank, const float* in);
  Pass backward(const StageAction& action, uint32_t rank, const float* in);
  TensorView shared_on(uint32_t chunk, const float* shared) const;
  bool reads_samples(const GraphPart& part) const;

  std::vector<Part> parts_; ///< by chunk
};

} // namespace troupe
