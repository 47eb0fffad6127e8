#pragma once

#include "strategies/pipeline_schedule.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe {

/// What a stage of a pipeline does next:
///
///              begin            all passes are done
///   waiting ----------> passing ---------------------+--> updating --> waiting
///                          |      with rounds:       |       ^         of the
///        with other        |                         v       | last    next
///        pipelines:        |                      summing    | round   version
///                          |                         |       |
///                          |                         +--> scaling --> summing
///                          v                         |
///                       giving --> adding --> taking-+
///
/// Where shards keep what it computes with, as long as a version is awaited of
/// them, and its gradients go to them:
///
///              begin          all is there          all passes are done
///   waiting ----------> pulling ----------> passing ----------> pushing
///      ^                                                           |
///      +------------------------- the next version ----------------+
///
/// One thing at a time is on the executor: nothing is due before it is done.
/// What is due may need something of a neighbour, or of the stages that hold
/// the same layers: it is taken once that has come. An epoch that begins sends
/// the stage back to waiting.
class StageCourse {
public:
  enum class Phase : uint8_t {
    waiting, ///< between two steps
    pulling, ///< what the step is computed with
    passing, ///< micro-batches, forward and backward, in the schedule's order
    giving,  ///< others' shares of what its micro-batches' gradients sum up to
    adding,  ///< what came of its own share, from all other pipelines
    taking,  ///< the others' shares, added up
    summing, ///< a round of scalars: own sums, with those of the stages after
    scaling, ///< ... and what the first stage makes of all of them
    updating,
    pushing, ///< what its micro-batches' gradients sum up to
    failed,  ///< nothing is due before another epoch
  };

  /// Who updates what a stage computes with.
  enum class Owners : uint8_t {
    stage,  ///< the stage itself, alone
    peers,  ///< it does, with the stages of other pipelines
    shards, ///< they keep it
  };

  /// The run ends at version `end`.
  explicit StageCourse(uint64_t end, Owners owners = Owners::stage)
    : owners_(owners), end_(end) {}

  /// An epoch begins at `version`: a step that was under way is taken anew.
  void begin_epoch(uint64_t version);
  /// No step is begun until end_at(); one that is under way goes on.
  void pause() { paused_ = true; }
  void end_at(uint64_t step);

  // --- what is due ----------------------------------------------------------

  bool is_due() const;
  Phase phase() const { return phase_; }
  /// The pass that is due. Errors: out of `passing` a bug that asserts.
  const StageAction& pass() const;
  /// The step that is due is on the executor; `rounds`: it has scalars to find,
  /// which shards do by themselves.
  void begin(std::vector<StageAction> actions, bool rounds);
  /// All that was pulled is here.
  void pulled();
  /// So is what the pass that is due needs first of this stage itself.
  void prepare();
  /// So is what else is due.
  void take();
  /// The executor has done it.
  void done();
  /// The scalars of a round are known.
  void scaled(bool last_round);
  void fail() { phase_ = Phase::failed; }

  // --- where it stands ------------------------------------------------------

  uint64_t version() const { return version_; } ///< held whole, or pulled next
  uint64_t end() const { return end_; }
  /// The first step that it has not begun.
  uint64_t next_step() const;

private:
  /// The gradients of the step are summed.
  void summed();

  Owners owners_;
  Phase phase_ = Phase::waiting;
  bool busy_ = false; ///< the executor has something
  bool paused_ = false;
  bool rounds_ = false; ///< of the step in hand
  uint64_t version_ = 0;
  uint64_t end_;
  std::vector<StageAction> actions_; ///< of the step in hand
  size_t next_ = 0;                  ///< of them
};

} // namespace troupe
