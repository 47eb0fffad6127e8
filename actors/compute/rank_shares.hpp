#pragma once

#include "strategies/rank_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace troupe {

/// What a virtual rank, or all of them, have of a sum in the middle of a pass:
/// a batch norm's with statistics over all virtual ranks.
struct RankShare {
  std::vector<double> values;
  uint64_t rows = 0;
};

/// Adds such shares up along the fixed tree, whoever comes first.
class RankShares {
public:
  explicit RankShares(uint32_t virtual_ranks) : virtual_ranks_(virtual_ranks) {}

  void put(uint32_t rank, RankShare share) { shares_[rank] = std::move(share); }
  size_t size() const { return shares_.size(); }
  /// By rank.
  const std::map<uint32_t, RankShare>& all() const { return shares_; }
  /// The sum of those that are here, which are gone then. Errors: without any,
  /// or of several operators, a bug that asserts.
  RankShare take_sum();
  void clear() { shares_.clear(); }

private:
  std::optional<RankShare> sum_of(RankRange node);

  uint32_t virtual_ranks_;
  std::map<uint32_t, RankShare> shares_;
};

/// The members that compute the other virtual ranks of a step. Each calls
/// gather() for every sum that its ranks come to, then any() once.
/// Errors of both: PassAbandoned where the members cannot go on together.
class RankPeers {
public:
  virtual ~RankPeers() = default;
  /// Puts the others' shares beside those of this member, which are all it has.
  virtual void gather(RankShares& shares) = 0;
  /// Returns whether any member that has samples says so. One that has none
  /// takes part here in the sums that the others come to.
  virtual bool any(bool own) = 0;
};

} // namespace troupe
