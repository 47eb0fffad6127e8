#pragma once

#include "actors/compute/rank_shares.hpp"
#include "actors/job/statistics_room.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe {

/// Sums over all virtual ranks in the middle of a step's passes, among the
/// replicas that compute them. At each sum every member that has samples gives
/// all others what each of its ranks has, and each adds that up along the fixed
/// tree. One that has none takes what they give until they are done; it does
/// not know how many sums there are, or how long.
///
/// Calls are collectives of the epoch's group: no share of another epoch, step
/// or sum can come, and each wait ends by the group's deadline or end.
class GroupStatistics final : public RankPeers {
public:
  /// What it needs of that group.
  struct Calls {
    /// Has all members `count` floats of member `root`, in place; false: the
    /// group has ended.
    std::function<bool(float* data, size_t count, uint32_t root)> broadcast;
    /// Ends it: its members will not agree the next time either.
    std::function<void(const std::string& reason)> end;
  };

  /// `filled`: ranks with samples, by member; `rank`: this one. `values`: as
  /// StatisticsRoom. Shapes: room [statistics_elements()], 64-byte aligned.
  GroupStatistics(std::vector<std::vector<uint32_t>> filled, uint32_t rank,
                  size_t values, float* room, Calls calls);
  void gather(RankShares& shares) override;
  bool any(bool own) override;

private:
  /// What a member has come to.
  struct Turn {
    bool over = false;  ///< its passes are
    bool says = false;  ///< over: what any() is asked for
    uint64_t count = 0; ///< not over: doubles of the sum
  };

  Turn take_turns(const Turn& own, RankShares* shares);
  void write(const Turn& turn, const RankShares* shares, float* block) const;
  void read(uint32_t member, size_t count, const float* block,
            RankShares& shares) const;
  [[noreturn]] void end(uint32_t member, const std::string& has) const;

  std::vector<std::vector<uint32_t>> filled_;
  uint32_t rank_;
  size_t values_;
  bool all_have_samples_;
  float* room_;
  Calls calls_;
};

} // namespace troupe
