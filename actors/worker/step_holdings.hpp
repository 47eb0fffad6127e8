#pragma once

#include "actors/compute/leaf_computer.hpp"
#include "strategies/step_nodes.hpp"

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace troupe {

/// What a worker has, and is to have, of the step it works on: which nodes are
/// left to compute, and the sums that it computed, kept until the step is known
/// to be committed.
class StepHoldings {
public:
  StepNodes& nodes() { return nodes_; }
  const StepNodes& nodes() const { return nodes_; }

  /// As StepNodes::begin_epoch().
  void begin_epoch(uint64_t step, RankRange ranks,
                   const std::vector<RankRange>& missing,
                   const std::vector<RankRange>& shares,
                   uint32_t virtual_ranks) {
    if (step != nodes_.step())
      sums_.clear();
    nodes_.begin_epoch(step, ranks, missing, shares, virtual_ranks);
  }
  /// The step is committed.
  void drop_sums() { sums_.clear(); }
  /// All is undone: nothing of what there was counts.
  void forget() {
    sums_.clear();
    nodes_.forget();
  }
  void computed(std::vector<NodeSum> sums) {
    nodes_.computed();
    sums_.insert(sums_.end(), std::make_move_iterator(sums.begin()),
                 std::make_move_iterator(sums.end()));
  }

  uint64_t step() const { return nodes_.step(); }
  const std::vector<NodeSum>& sums() const { return sums_; }
  std::vector<NodeSum> sums_with(std::vector<NodeSum> more) const {
    more.insert(more.end(), sums_.begin(), sums_.end());
    return more;
  }
  /// The nodes that a seal reports: nobody else need compute them.
  std::vector<RankRange> reported() const {
    auto out = nodes_.computing();
    for (const auto& sum : sums_)
      out.push_back(sum.node);
    return out;
  }

private:
  StepNodes nodes_;
  std::vector<NodeSum> sums_;
};

} // namespace troupe
