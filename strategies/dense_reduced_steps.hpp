#pragma once

#include "strategies/free_rows.hpp"
#include "strategies/step_nodes.hpp"

#include <cstdint>
#include <variant>
#include <vector>

namespace troupe {

/// What a worker does next that keeps the dense variables itself and has rows
/// from shards (--dense all_reduced; PROTOCOL 8, 9):
///
///          begin_epoch           rows and dense variables
///   sealed ----------> waiting ----------------------------> computing
///      ^                 ^  |                                    |
///      |                 |  +--> idle: at the end, or paused     |
///      |                 +---------------------------------------+
///      +---- seal (from anywhere)     sums them, pushes rows, pulls the next
///
/// Rows that run free (strategies/free_rows.hpp) may be pulled for the next
/// step while this one is computed, and first of all, *repairing*, rows that
/// the epochs before have lost are computed once more.
class DenseReducedSteps {
public:
  /// Ask all shards for the rows of that version, which go beside the dense
  /// variables of it.
  struct Pull {
    uint64_t version = 0;
  };
  /// The same for leaves whose dense part is over: they are computed with the
  /// dense variables that there are now, of `version`.
  struct PullLost {
    LostLeaves lost;
    uint64_t version = 0;
  };
  struct ComputeLost {
    LostLeaves lost;
    uint64_t version = 0;
  };
  /// The step before is over: its sums are let go.
  struct NextStep {};
  struct Compute {
    uint64_t step = 0;
    std::vector<RankRange> nodes;
  };
  /// Push rows of the step's sums, and reduce their dense part.
  struct Finish {
    uint64_t step = 0;
  };
  using Action =
    std::variant<Pull, PullLost, ComputeLost, NextStep, Compute, Finish>;
  using Actions = std::vector<Action>;

  /// `nodes` outlives it.
  explicit DenseReducedSteps(StepNodes& nodes) : nodes_(nodes) {}

  // --- epochs ---------------------------------------------------------------
  void seal() { phase_ = Phase::sealed; }
  struct Epoch {
    uint64_t version = 0; ///< of the dense variables
    uint64_t end = 0;     ///< the version that the run ends at
    std::vector<LostLeaves> lost{};
    bool prefetches = false; ///< the next step's rows, while one is computed
  };
  /// The epoch is active, and `nodes` know what it leaves to do of its step.
  Actions begin_epoch(Epoch epoch);

  // --- a step ---------------------------------------------------------------
  uint64_t version() const { return epoch_.version; } ///< of dense variables
  uint64_t end() const { return epoch_.end; }
  uint64_t wanted() const { return wanted_; } ///< version of the rows pulled
  /// The version of dense variables that those are read beside.
  uint64_t rows_beside() const {
    return phase_ == Phase::repairing ? epoch_.version : wanted_;
  }
  /// All rows that were pulled are here.
  Actions rows_arrived();
  /// The executor is done with Compute, and its sums are held.
  Actions computed();
  /// It is done with ComputeLost, and what came of it is pushed.
  Actions lost_computed();
  /// The dense variables have that version.
  Actions reduced(uint64_t version);

  // --- ending early ---------------------------------------------------------
  void pause() { paused_ = true; }
  uint64_t next_step() const; ///< the first that it has not begun
  Actions end_at(uint64_t step);

private:
  enum class Phase : uint8_t { sealed, repairing, waiting, computing, idle };

  void pull(uint64_t version, Actions& out);
  void begin_first_step(Actions& out);
  void go_on(Actions& out);
  void compute(Actions& out);
  void finish_step(Actions& out);

  StepNodes& nodes_;
  Epoch epoch_;
  Phase phase_ = Phase::sealed;
  bool paused_ = false;
  bool rows_here_ = false; ///< of the version wanted
  uint64_t wanted_ = 0;
};

} // namespace troupe
