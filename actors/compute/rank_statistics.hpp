#pragma once

#include "actors/compute/rank_shares.hpp"
#include "kernels/engine/operator.hpp"

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe {

/// Adds up, along the fixed tree, what the virtual ranks of a step have in the
/// middle of a pass: the sums of a batch norm with statistics over all of them.
/// Each rank's pass runs on a thread of its own, and waits here for the others.
class RankStatistics {
public:
  /// Of ranks [0, virtual_ranks) those that have samples and are computed here;
  /// `peers` have the others, null: there are none.
  RankStatistics(uint32_t virtual_ranks, const std::vector<uint32_t>& ranks,
                 RankPeers* peers = nullptr);
  ~RankStatistics();

  /// What a rank's pass is given. Errors of sum(): PassAbandoned once the pass
  /// of another rank has failed, or as RankPeers::gather().
  kernels::StatisticsExchange& of(uint32_t rank);
  /// A pass has failed: the others do not wait for it.
  void abandon();

private:
  class Seat;

  uint64_t sum(uint32_t rank, double* values, size_t count, uint64_t rows);

  std::map<uint32_t, std::unique_ptr<Seat>> seats_;
  RankPeers* peers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  RankShares shares_; ///< of the sum that is being made
  RankShare result_;  ///< of the last one
  uint64_t made_ = 0; ///< so many
  bool abandoned_ = false;
};

} // namespace troupe
