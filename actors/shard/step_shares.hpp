#pragma once

#include "actors/shard/shard_context.hpp"
#include "strategies/step_quorum.hpp"

#include <functional>
#include <map>
#include <set>
#include <vector>

namespace troupe {

/// A shard's side of k of n (PROTOCOL 13): keeps a step's pushes until it is
/// decided which shares the step is made of. The head of slice 0 decides, by
/// what arrives at that slice; its chain writes the decision down, then it
/// tells the coordinator and all shards, which asked for it when the epoch
/// began.
/// Source: Chen et al., 2016 (strategies/step_quorum.hpp).
class StepSharesDesk {
public:
  /// `replicate(step, decision, held)` calls held() once every replica of slice
  /// 0 has written the decision down.
  using Replicate = std::function<void(uint64_t, const std::vector<float>&,
                                       std::function<void()>)>;
  StepSharesDesk(ShardContext& shard, Replicate replicate);

  static bool needed(const Job& job) { return job.options.backup_workers > 0; }

  void leave_epoch();
  /// The job is rolled back: nothing is decided.
  void restore();
  /// `decides`: this shard is the head of slice 0, which has `version`;
  /// `decider`: who is.
  void enter_epoch(bool decides, uint32_t decider, uint64_t version);

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
  void decide(uint64_t step, const std::vector<RankRange>& shares);
  void tell_once_held(uint64_t step, const std::vector<RankRange>& shares);
  std::vector<RankRange> recorded(uint64_t step) const;
  void tell_all(const StepShares& decision);

  ShardContext& shard_;
  std::vector<RankRange> all_; ///< shares of the plan
  Replicate replicate_;
  StepQuorum quorum_;
  bool decides_ = false;                               ///< in this epoch
  std::map<uint64_t, std::vector<RankRange>> decided_; ///< of the last steps
  std::map<uint64_t, std::vector<RankRange>> told_;    ///< in this epoch
  std::vector<Push> kept_;
  std::set<shard_actor> askers_; ///< of this epoch
};

} // namespace troupe
