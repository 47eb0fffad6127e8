#pragma once

#include "strategies/step_nodes.hpp"

#include <cstdint>
#include <variant>
#include <vector>

namespace troupe {

/// What a worker that pulls parameters and pushes gradients does next
/// (PROTOCOL 8, 9):
///
///         begin_epoch            all_arrived
///   sealed ----------> pulling -------------> computing
///     ^                 ^   |                     |
///     |                 |   +--> idle: at the end, or paused
///     |                 +-------------------------+
///     +-- seal, from anywhere    computed: Push, Pull of the next version
///
/// begin_epoch sends first what there is of the step (Push), and goes on
/// computing where that step is still being computed.
///
/// With `early` the executor begins as soon as some parameters are there, and
/// waits at a gate for the others. That is arithmetic alone: what is held,
/// pushed and said is as if it began when all are there.
///
/// A computation has a *turn*; what becomes of one that is no longer current()
/// is nobody's business.
class WorkerSteps {
public:
  /// Who computes on parameters that are not all there stops, without a result.
  struct GiveUp {};
  /// Somebody still computes on the parameters, for nothing: take other memory.
  struct Replace {};
  /// Ask all owners for a version; asynchronously for what they have.
  struct Pull {
    uint64_t version = 0; ///< or the lease that is computed next
    bool in_use = false;  ///< the parameters that are here
  };
  /// Compute with the parameters that have come, and wait for the others.
  struct Begin {
    uint64_t step = 0;
    std::vector<RankRange> nodes;
    uint64_t turn = 0;
  };
  /// Compute; `begun`: that is under way already.
  struct Compute {
    uint64_t step = 0;
    std::vector<RankRange> nodes;
    uint64_t turn = 0;
    bool begun = false;
  };
  /// The step before is committed: its sums are let go.
  struct NextStep {};
  /// Send all sums that there are of the step.
  struct Push {};
  using Action =
    std::variant<GiveUp, Replace, Pull, Begin, Compute, NextStep, Push>;
  using Actions = std::vector<Action>;

  /// `nodes` outlives it.
  WorkerSteps(StepNodes& nodes, bool early) : nodes_(nodes), early_(early) {}

  // --- epochs ---------------------------------------------------------------
  Actions seal();
  /// What was computed is of a step that is undone, or over.
  Actions forget();
  /// The epoch is active, and `nodes` know what it leaves to do of step
  /// `version`; the run ends at `end`.
  Actions begin_epoch(uint64_t version, uint64_t end);

  // --- a step ---------------------------------------------------------------
  /// Tells whether slices of that version are waited for.
  bool awaits(uint64_t version) const {
    return phase_ == Phase::pulling && version >= wanted_;
  }
  uint64_t wanted() const { return wanted_; } ///< the version being pulled
  /// K of n: an owner is at `version` already, past the one that was wanted.
  Actions overtaken(uint64_t version);
  /// `usable`: the gate lets a computation in.
  Actions some_arrived(bool usable);
  /// `abandoned`: who began early has waited too long.
  Actions all_arrived(bool abandoned);
  /// The executor is done; returns false where it gave up, and nothing follows.
  /// Otherwise computed() does, once its sums are held.
  bool finished(bool abandoned);
  Actions computed();
  bool current(uint64_t turn) const { return turn == turn_; }
  /// Tells whether a part of that computation's sums may be pushed before it is
  /// over.
  bool pushes_early(uint64_t turn) const {
    return current(turn) && phase_ == Phase::computing
           && !nodes_.anything_left();
  }

  // --- leases (strategies/lease_pipeline.hpp) -------------------------------
  Actions pull_lease(uint64_t lease);
  /// Returns its turn; finished() ends it.
  uint64_t compute_lease();

  // --- ending early ---------------------------------------------------------
  Actions pause();
  uint64_t next_step() const; ///< the first that it has not begun
  Actions end_at(uint64_t step);

private:
  enum class Phase : uint8_t { sealed, pulling, computing, idle };

  void give_up(Actions& out);
  void pull(uint64_t version, Actions& out);
  void pull_next(Actions& out);
  void compute(bool abandoned, Actions& out);
  uint64_t start(uint64_t step);

  StepNodes& nodes_;
  bool early_;
  Phase phase_ = Phase::sealed;
  uint64_t wanted_ = 0;
  uint64_t end_ = 0;
  bool paused_ = false;
  bool computing_ = false;
  bool begun_ = false; ///< what it computes still lacks slices
  uint64_t computing_step_ = 0;
  uint64_t turn_ = 0; ///< counts computations
};

} // namespace troupe
