#pragma once

#include "strategies/rank_tree.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe {

/// Decides, for one slice, which pushes of the current step count and when the
/// tree is complete (PROTOCOL 8 to 10). Holds ranges only, never payloads: its
/// owner keeps one payload per held node and does what a decision says.
///
///   offer(step, node) -> accept: store the payload, then drop what
///                        `replaced` names, then carry out `combines` in order
///                     -> duplicate | stale | ahead: drop it, count it
///   complete()        -> the payload of the root is the step's gradient sum
///   advance()         -> the step is applied; the ledger awaits the next one
class StepLedger {
public:
  enum class Verdict { accept, duplicate, stale, ahead };

  /// Add the payload of `right` to that of `left`; the sum is the payload of
  /// `parent`, and both children are no longer held.
  struct Combine {
    RankRange left;
    RankRange right;
    RankRange parent;
  };

  struct Decision {
    Verdict verdict = Verdict::duplicate;
    std::string_view reason;
    std::vector<RankRange> replaced; ///< held descendants the node supersedes
    std::vector<Combine> combines;
  };

  /// `version` is the step whose pushes are awaited first.
  StepLedger(uint32_t virtual_ranks, uint64_t version);

  /// Errors: a range that is no node of the tree is a bug of the caller, who
  /// checks bytes from outside with is_node() first; it asserts.
  Decision offer(uint64_t step, RankRange node);

  bool complete() const;
  void advance();
  /// Forgets everything and awaits `version` (a rollback).
  void reset(uint64_t version);

  uint64_t version() const { return version_; }
  /// The nodes held for the current step: what a seal report lists.
  const std::vector<RankRange>& held() const { return held_; }

private:
  uint32_t virtual_ranks_;
  uint64_t version_;
  std::vector<RankRange> held_;
};

/// Sums that an owner has of a slice at once, at most, while these nodes are
/// pushed, which cover all ranks, in any order: those that wait for another
/// one, two that are added, and what they make.
uint64_t max_sums_at_once(std::vector<RankRange> pushed,
                          uint32_t virtual_ranks);

} // namespace troupe
