#pragma once

#include "actors/compute/parked_pass.hpp"
#include "actors/job/role_parts.hpp"
#include "actors/stage/split_steps.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "strategies/pipeline_schedule.hpp"

#include <memory>
#include <span>
#include <vector>

namespace troupe {

/// A stage, or a tensor member, without its actor: the passes of its layers, or
/// of its slices of them, which are one part of the model or, of an interleaved
/// schedule, a part for each chunk; and their updates. A tensor member keeps
/// the slices of its pieces, and those of what nobody cuts, which every member
/// of its stage updates alike. All calls from tasks of the executor, or while
/// it is idle, but chunks(), part() and sums_of().
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
    return part(chunk).ops.end == role_.graph().ops.size();
  }

  /// Of a tensor member no more than it has of all that it needs: of what all
  /// members of its stage keep one shows it.
  std::vector<SliceState> held() const override;

  /// Takes the parameters that come from the part before a chunk's,
  /// [parameter_elements of its part().in], before its first pass. Returns
  /// those for the part after; empty where nothing crosses.
  TensorView share(uint32_t chunk, const float* shared);

  /// Elements of the sums over a stage's tensor members that a pass waits for,
  /// in order, of a micro-batch with `rows` samples. One that goes forward has
  /// one, if of nothing: so members know of each other that they have the
  /// version. Who has no such members has none.
  std::vector<uint64_t> sums_of(StagePass pass, uint32_t chunk,
                                uint32_t rows) const;

  /// Doubles of each sum over all virtual ranks that a pass stops for, in
  /// order, of a micro-batch with samples: of the first chunk, which has no
  /// other beside it where there are such sums.
  std::vector<uint64_t> statistics_of(StagePass pass) const;
  /// Elements of what a pipeline has of such a sum in a step, of `doubles`.
  uint64_t statistics_elements(uint64_t step, uint32_t pipeline,
                               uint64_t doubles) const;

  /// What became of a pass, as far as it goes without the other members.
  struct Pass {
    bool waits = false; ///< for a sum, of which `values` is this member's part
    /// For the neighbour; of weights none. Of a sum over all virtual ranks what
    /// the last micro-batch to stop there brings together, for the peers.
    TensorView values;
    LeafLoss loss; ///< of the last part's forward pass
  };
  /// Does what the schedule says, with a micro-batch of a virtual rank; with
  /// one that has no samples, nothing.
  /// Shapes: in, what comes from a neighbour, as StageReplica has it.
  Pass pass(const StageAction& action, uint32_t rank, const TensorView& in);
  /// Takes the pass that waits on. Shapes: partials [members], each of the sum
  /// that the last call told of; the own one may be empty.
  Pass go_on(const std::vector<TensorView>& partials);
  /// Takes a micro-batch's pass on that waits for a sum over all virtual ranks.
  /// Shapes: theirs [pipelines], what the others have of it, with the first
  /// micro-batch; those of pipelines without samples, and the own, are empty.
  Pass go_on(const StageAction& action, const std::vector<TensorView>& theirs);

private:
  /// A pass in hand.
  struct UnderWay {
    StageAction action;
    uint32_t rank = 0;
    TensorView in;
    std::shared_ptr<float> out; ///< for the neighbour
    uint64_t elements = 0;      ///< of it
    bool sums_nothing = false;  ///< it has no sum but one of nothing, to come
    LeafStats stats;
    /// Where it may stop for sums over all virtual ranks.
    std::unique_ptr<ParkedPass> parked;
  };

  struct Part {
    /// Of micro-batch `number` of a step.
    uint32_t slot_of(uint32_t number) const {
      return static_cast<uint32_t>(number % batches.size());
    }

    std::unique_ptr<StageReplica> replica;
    bool reads_samples = false;
    std::vector<BatchMemory> batches; ///< by slot
    std::vector<UnderWay> passes;     ///< by slot
  };

  void abandon() override;

  void add_parts();
  void add_part(uint32_t chunk, std::unique_ptr<StageReplica> replica,
                uint32_t in_flight);
  void forward(Part& part, UnderWay& pass);
  void backward(Part& part, UnderWay& pass);
  void lend_out(UnderWay& pass, uint64_t elements);
  void add_up(const std::vector<TensorView>& partials, std::span<float> place);
  UnderWay& under_way(const StageAction& action);
  Pass outcome(UnderWay& pass);
  Pass stopped(const UnderWay& pass);
  void take_statistics(const std::vector<TensorView>& theirs);
  TensorView shared_on(uint32_t chunk, const float* shared) const;

  RoleParts role_;
  std::vector<Part> parts_;       ///< by chunk
  std::vector<uint32_t> addends_; ///< members, in the order of their sum
  std::vector<uint32_t> merges_;  ///< after each of them
  StageAction now_;               ///< the pass that was begun last
  /// Of the sum over all virtual ranks that passes stop for next, and the last
  /// one.
  RankShares shares_;
  RankShare sum_;
};

} // namespace troupe
