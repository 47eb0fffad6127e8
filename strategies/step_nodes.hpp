#pragma once

#include "strategies/rank_tree.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// Which nodes of the step that it works on a worker has to compute, and which
/// its executor computes now. In an undisturbed step these are all nodes of its
/// ranks; in one that an epoch change interrupted they are what nobody has
/// (PROTOCOL 9).
class StepNodes {
public:
  /// An epoch begins: the worker owns `ranks`, and of `step` these are missing.
  /// A node never spans two `shares`. `together`: no rank can be
  /// computed without all others; where any is missing, all workers compute all
  /// of theirs.
  void begin_epoch(uint64_t step, RankRange ranks,
                   const std::vector<RankRange>& missing,
                   const std::vector<RankRange>& shares, uint32_t virtual_ranks,
                   bool together = false);
  /// The step is committed; `next` begins, with all nodes left to compute.
  void begin_step(uint64_t next);
  /// All is undone: nothing of what there was counts.
  void forget();

  /// Takes what is left as what the executor computes now.
  const std::vector<RankRange>& compute();
  /// The executor has those.
  void computed() { computing_.clear(); }

  uint64_t step() const { return step_; }
  bool anything_left() const { return !left_.empty(); }
  /// What is to be computed of a step once its parameters are there.
  const std::vector<RankRange>& of(uint64_t step) const {
    return step == step_ ? left_ : all_;
  }
  /// What the executor computes of step().
  std::vector<RankRange> computing() const;

private:
  uint64_t step_ = 0;
  std::vector<RankRange> all_; ///< of the worker's ranks
  std::vector<RankRange> left_;
  std::vector<RankRange> computing_;
  uint64_t computing_step_ = 0;
};

} // namespace troupe
