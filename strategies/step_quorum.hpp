#pragma once

#include "strategies/rank_tree.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// Decides, k of n, which virtual ranks a step is made of (PROTOCOL 13): those
/// of the first workers to arrive, all but `backups` of them. One decider asks
/// it, by what arrives at one slice; what it says is written down before
/// anybody is told, and nobody decides that step again.
///
/// The job's virtual ranks are in *shares*, one for each worker of the plan. A
/// share is in a step whole or not at all, whoever computes it.
///
/// Source: Chen et al., "Revisiting Distributed Synchronous SGD", 2016 (backup
/// workers).
class StepQuorum {
public:
  /// Errors: shares that do not cover all virtual ranks in order, or not more
  /// of them than backups, are a bug of the caller; it asserts.
  StepQuorum(std::vector<RankRange> shares, uint32_t backups);

  /// A node of `step` arrived. Returns the shares that the step is made of when
  /// this is the one that decides it, nothing at any other time. Nodes of a
  /// later step begin it: they prove that the one before is decided.
  std::vector<RankRange> offer(uint64_t step, RankRange node);
  /// The epoch changed: what had arrived will arrive again.
  void forget();

private:
  bool whole(RankRange share) const;

  std::vector<RankRange> shares_;
  uint32_t backups_;
  uint64_t step_ = 0;
  bool decided_ = false;
  std::vector<bool> arrived_; ///< per virtual rank
};

/// The nodes that whoever has `ranks` sends where a share is in a step or not:
/// the largest that lie inside one share.
std::vector<RankRange> nodes_of_shares(RankRange ranks,
                                       const std::vector<RankRange>& shares,
                                       uint32_t virtual_ranks);

/// What `included` leaves out of all virtual ranks, as the largest nodes that
/// lie inside one share.
std::vector<RankRange> left_out(const std::vector<RankRange>& included,
                                const std::vector<RankRange>& shares,
                                uint32_t virtual_ranks);

} // namespace troupe
