#pragma once

#include "actors/compute/leaf_computer.hpp"
#include "actors/replica/memory.hpp"
#include "kernels/collective/reducer.hpp"
#include "strategies/step_division.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// What a replica begins an epoch with.
struct ReplicaStart {
  uint32_t rank = 0;               ///< its place among the members
  std::vector<StepMember> members; ///< what they hold of the first step
};

/// How the members' nodes become the step's sum along the fixed tree; one
/// without a sample is left out.
SumProgram tree_program(const Job& job, uint64_t step,
                        const std::vector<std::vector<RankRange>>& nodes);

/// Ranks with samples in a step, by the member that has those nodes.
std::vector<std::vector<uint32_t>>
ranks_with_samples(const Job& job, uint64_t step,
                   const std::vector<std::vector<RankRange>>& nodes);

/// What a replica adds to a step's sum: nodes of the fixed tree, each in an
/// array of its own. Sums of a step that failed stay for the next epoch, which
/// may begin with the same step: then nobody computes them again.
class ReplicaSums {
public:
  /// `grows`: arrays can be added when they are needed; a memory file has room
  /// for all from the beginning. `few`: each addend costs more than a pass over
  /// memory.
  ReplicaSums(const Job& job, uint32_t replicas, bool grows, bool few);

  /// Arrays that `FlatArrays` begins with for addends.
  uint32_t arrays() const { return first_; }
  /// An epoch begins. `shared`: who sums reads the arrays where they lie.
  void begin_epoch(ReplicaStart start, bool shared);
  /// A step is over: what was held of it is of no use any more.
  void end_step();
  /// The step failed after its leaves had been computed.
  void keep(const StepGradient& gradient);

  /// Whether sums of a step that failed are of use in the next epoch. Not where
  /// a rank's pass needs those of all: it is taken again with them.
  bool outlive_steps() const;
  /// Nodes held of the step that begins, or began, the epoch.
  std::vector<RankRange> held() const;
  const std::vector<LeafLoss>& held_leaves() const { return held_leaves_; }
  /// Those that the replica has still to compute.
  const std::vector<RankRange>& left() const { return left_; }
  /// All its addends, and those of left().
  /// Shapes: of each float [Job::layout.total].
  std::vector<float*> all_in(FlatArrays& arrays) const;
  std::vector<float*> left_in(FlatArrays& arrays) const;
  /// How all members' addends become the step's sum.
  SumProgram program(uint64_t step) const;
  /// Ranks with samples, by the member that brings them.
  std::vector<std::vector<uint32_t>> filled(uint64_t step) const;

  uint32_t rank() const { return start_.rank; }
  uint32_t members() const {
    return static_cast<uint32_t>(start_.members.size());
  }

private:
  struct Held {
    RankRange node;
    uint32_t array;
  };
  void divide();
  void forget();
  float* in(FlatArrays& arrays, uint32_t array) const;

  const Job& job_;
  bool alone_;
  bool few_;
  uint32_t max_addends_; ///< addends that there may be
  uint32_t first_;       ///< arrays that are there from the beginning
  bool shared_ = false;
  ReplicaStart start_;
  std::vector<std::vector<RankRange>> nodes_; ///< of all members
  std::vector<RankRange> left_;
  std::vector<uint32_t> arrays_; ///< of this replica's nodes
  std::vector<Held> held_;
  std::vector<LeafLoss> held_leaves_;
};

} // namespace troupe
