#pragma once

#include "actors/compute/leaf_tree.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/role/context.hpp"
#include "actors/shard/shard_store.hpp"
#include "actors/stage/peer_copies.hpp"
#include "actors/stage/peer_sum.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "strategies/mesh.hpp"
#include "strategies/pipeline_schedule.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// A stage without its actor: the passes of its layers, which are one part of
/// the model or, of an interleaved schedule, a part for each chunk; and their
/// updates. All calls from tasks of the executor, or while it is idle, but
/// chunks() and part().
class StageSteps {
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

  /// What is held of the slices that this stage keeps.
  std::vector<SliceState> held() const;
  /// Goes back to a checkpoint; null: to version 0.
  /// Errors: InputError where it cannot be read.
  void reset(const std::shared_ptr<const Beginning>& beginning);
  /// An epoch begins at a version that is held; what is left of a step is gone.
  void enter(uint64_t version, uint64_t epoch);

  PeerCopy copy(uint32_t slice, uint64_t version) const;
  uint64_t copy_elements(uint32_t slice) const;
  void install(uint32_t slice, uint64_t version, const TensorView& copy);

  /// A step of the version in hand begins.
  void begin_step(uint64_t step);
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
  // --- beside other pipelines, once all micro-batches are back: MeshSum
  // -------

  /// Elements of each chunk's gradient.
  std::vector<uint64_t> gradient_elements() const;
  using Given = PeerSum::Given;
  /// What the others are given of this pipeline's sums.
  std::vector<Given> give(const MeshSum::Step& sum);
  /// Adds up this stage's share of each chunk's gradient, and returns them.
  std::vector<TensorView> add(const MeshSum::Step& sum, const StagePeers& peers,
                              const PeerValues& nodes);
  /// The whole gradient, with the others' shares.
  void complete(const StagePeers& peers, const PeerValues& shares);

  // --- the gradient is summed
  // --------------------------------------------------

  /// All micro-batches are back: the block sums of this stage's slices in a
  /// round, slice after slice (slice_sums()).
  std::vector<double> sums(ScalarRoundKind round, const StepScalars& scalars);
  /// The step's update, to the next version.
  /// Returns why it cannot be, one line; empty: it is done.
  std::string update(const StepScalars& scalars);

  /// The slices of a version that is held.
  std::vector<SnapshotSlice> snapshot(uint64_t version) const;

private:
  struct Part {
    Part(std::unique_ptr<StageReplica> made, const RoleContext& context,
         uint32_t chunk);

    uint64_t elements() const { return replica->layout().total; }

    /// Of micro-batch `number` of a step.
    uint32_t slot_of(uint32_t number) const {
      return static_cast<uint32_t>(number % batches.size());
    }

    std::unique_ptr<StageReplica> replica;
    bool reads_samples = false;
    std::vector<BatchMemory> batches; ///< by slot
    Buffer parameters; ///< of the version in hand, flat by the part's layout
    LeafTree sums;
    PeerSum of_peers;
  };

  void add_part(uint32_t index);
  Pass forward(Part& part, uint32_t number, uint32_t rank, const float* in);
  Pass backward(Part& part, const StageAction& action, uint32_t rank,
                const float* in);
  /// The step's, once it is summed.
  const float* gradient(const Part& part) const {
    return part.of_peers.gradient(part.sums);
  }
  UpdateMoment moment() const;
  /// Points an update, or its sums, at a slice as the step finds it.
  UpdateArgs arguments(const Slice& slice, const StepScalars& scalars) const;
  Batch gather(Part& part, uint32_t number, uint32_t rank);
  void load(uint64_t version);
  TensorView shared_on(const Part& part, const float* shared) const;
  bool reads_samples(const GraphPart& part) const;

  RoleContext context_;
  const Job& job_;
  Executor& executor_;
  Mesh mesh_;
  uint32_t pipeline_; ///< of which this stage is one
  std::shared_ptr<ShardStore> store_;
  std::vector<uint32_t> slices_;
  Sampling sampling_;
  std::vector<Part> parts_;           ///< by chunk
  std::map<uint32_t, uint32_t> kept_; ///< chunk by slice
  std::vector<uint32_t> rows_;        ///< of the micro-batch in hand
  uint64_t step_ = 0;
};

} // namespace troupe
