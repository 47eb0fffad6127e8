#pragma once

#include "strategies/rank_tree.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace troupe {

/// The coordinator's account of a synchronous run: which step is committed
/// (applied by every owner), with what loss, and which leaves were computed
/// more than once. History, not a decision (PROTOCOL 16).
class CommitBook {
public:
  struct Leaf {
    uint32_t virtual_rank = 0;
    double loss_sum = 0;
    uint32_t samples = 0;
  };
  struct Commit {
    uint64_t step = 0;
    /// Mean over the step's samples, nats; none: who knew of some is gone.
    std::optional<double> loss{};
    uint32_t samples = 0; ///< whose loss is known
  };

  /// `partial`: a step may leave out virtual ranks (k of n), and made_of() says
  /// which it has; a leaf that comes after its step is late, not recomputed.
  CommitBook(uint32_t virtual_ranks, uint32_t owners, bool partial = false);

  /// Leaves a worker computed for `step`.
  std::vector<Commit> leaves(uint64_t step, const std::vector<Leaf>& leaves);
  /// The same said again, as it may not have been heard: nothing is computed a
  /// second time by that.
  std::vector<Commit> again(uint64_t step, const std::vector<Leaf>& leaves);
  /// From here on these owners, each at `version`, and no others.
  void owners(const std::set<uint32_t>& owners, uint64_t version);
  /// The same, each at a version of its own.
  void owners(std::map<uint32_t, uint64_t> versions);
  /// Owner `index` now holds `version` in all its slices.
  std::vector<Commit> applied(uint32_t index, uint64_t version);
  /// A step has exactly these ranks.
  std::vector<Commit> made_of(uint64_t step,
                              const std::vector<RankRange>& ranks);
  /// The report of some leaves of the steps below `version` may have died with
  /// their worker: those commit without a loss, once every owner has applied
  /// them.
  std::vector<Commit> forgive(uint64_t version);
  /// Owners have these leaves of `step`, and who computed them may be gone,
  /// with the report: nobody waits for it.
  std::vector<Commit> excuse(uint64_t step,
                             const std::vector<RankRange>& ranks);
  /// An earlier coordinator's account, as far as it is known: the owners may be
  /// further.
  void resume(uint64_t committed, uint64_t leaves_recomputed,
              uint64_t ranks_left_out);
  /// All owners went back to `version`; returns the number of committed steps
  /// that this undid.
  uint64_t rollback(uint64_t version);

  /// Whether somebody has computed all of these leaves of `step`.
  bool has_leaves(uint64_t step, RankRange ranks) const;
  /// Whether that owner holds `version`.
  bool holds(uint32_t owner, uint64_t version) const;
  uint64_t committed() const { return committed_; } ///< steps, counts from 0
  uint64_t leaves_recomputed() const { return recomputed_; }
  /// Partial: virtual ranks that committed steps were made without.
  uint64_t ranks_left_out() const { return left_out_; }

private:
  std::vector<Commit> settle();

  bool whole(uint64_t step);
  Commit commit_of(uint64_t step);
  bool is_late(uint64_t step, uint32_t rank);
  void miss(uint64_t step);

  uint32_t virtual_ranks_;
  bool partial_;
  std::map<uint32_t, uint64_t> versions_;        ///< per owner
  std::map<uint64_t, std::vector<Leaf>> leaves_; ///< by step, per rank
  std::map<uint64_t, std::vector<bool>> seen_;
  std::map<uint64_t, std::vector<bool>> excused_;
  std::map<uint64_t, std::vector<bool>> in_;      ///< partial: who is in it
  std::map<uint64_t, std::set<uint32_t>> missed_; ///< ranks, by step
  uint64_t committed_ = 0;
  uint64_t forgiven_ = 0; ///< below it, losses may be missing
  uint64_t recomputed_ = 0;
  uint64_t left_out_ = 0;
};

} // namespace troupe
