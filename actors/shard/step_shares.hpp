#pragma once

#include "actors/shard/frame.hpp"
#include "strategies/step_quorum.hpp"

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace troupe {

/// A shard's side of k of n (PROTOCOL 13): keeps a step's pushes until it is
/// decided which shares the step is made of. The shard of slice 0 decides, by
/// what arrives at that slice; it writes the decision into its store, then
/// tells the coordinator and all shards, which asked for it when the epoch
/// began.
class StepSharesDesk {
public:
  explicit StepSharesDesk(ShardFrame& shard);

  static bool needed(const Job& job) { return job.options.backup_workers > 0; }

  void leave_epoch();
  /// The job is rolled back: nothing is decided.
  void restore() { decided_.clear(); }
  /// `version`: of slice 0; looked at by the decider alone.
  void enter_epoch(uint64_t version);

  /// Returns whether the push is in its step. If not it is late (counted) or
  /// kept: then release() returns it. `version`: of its slice.
  bool admit(const Push& push, uint64_t version);
  /// The kept pushes that the step is made of, in order of arrival.
  std::vector<Push> release(uint64_t step);
  void take(const AskShares& ask, const shard_actor& asker);
  /// Returns false where the step was decided before.
  bool take(const StepShares& decision);

  /// What has been decided of a step; null: nothing yet.
  const std::vector<RankRange>* shares_of(uint64_t step) const;
  /// The nodes of those who are not in the step.
  std::vector<RankRange> left_out_of(uint64_t step) const;
  uint32_t samples_of(uint64_t step) const;

private:
  bool decides() const { return quorum_.has_value(); }
  void decide(uint64_t step, const std::vector<RankRange>& shares);
  std::vector<RankRange> recorded(uint64_t step) const;
  void tell_all(const StepShares& decision);

  ShardFrame& shard_;
  std::vector<RankRange> all_; ///< shares of the plan
  std::optional<StepQuorum> quorum_;
  std::map<uint64_t, std::vector<RankRange>> decided_; ///< of the last steps
  std::map<uint64_t, std::vector<RankRange>> told_;    ///< in this epoch
  std::vector<Push> kept_;
  std::set<shard_actor> askers_; ///< of this epoch
};

} // namespace troupe
