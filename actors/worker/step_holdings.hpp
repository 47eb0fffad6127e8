#pragma once

#include "actors/compute/leaf_computer.hpp"
#include "strategies/step_quorum.hpp"
#include "strategies/takeover.hpp"

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace troupe {

/// What a worker has, and is to have, of the step it works on: the sums it
/// computed, kept until the step is known to be committed, the nodes that its
/// executor computes now, and those that are left for it to compute. In an
/// undisturbed step the latter are all nodes of its ranks; in one that an epoch
/// change interrupted they are what nobody has (PROTOCOL 9).
class StepHoldings {
public:
  /// An epoch begins: the worker owns `ranks`, and of `step` these are missing.
  /// A node never spans two `shares`.
  void begin_epoch(uint64_t step, RankRange ranks,
                   const std::vector<RankRange>& missing,
                   const std::vector<RankRange>& shares,
                   uint32_t virtual_ranks) {
    all_ = nodes_of_shares(ranks, shares, virtual_ranks);
    if (step != step_)
      sums_.clear();
    step_ = step;
    left_.clear();
    for (auto range : takeover_ranks(ranks, missing))
      for (auto node : nodes_of_shares(range, shares, virtual_ranks))
        left_.push_back(node);
  }
  /// The step is committed; `next` begins, with all nodes left to compute.
  void begin_step(uint64_t next) {
    sums_.clear();
    step_ = next;
    left_ = all_;
  }
  /// All is undone: nothing of what there was counts.
  void forget() {
    sums_.clear();
    computing_.clear();
    left_.clear();
    step_ = 0;
  }

  /// Takes what is left as what the executor computes now.
  const std::vector<RankRange>& compute() {
    computing_ = std::exchange(left_, {});
    computing_step_ = step_;
    return computing_;
  }
  void computed(std::vector<NodeSum> sums) {
    computing_.clear();
    sums_.insert(sums_.end(), std::make_move_iterator(sums.begin()),
                 std::make_move_iterator(sums.end()));
  }

  /// What is to be computed of a step once its parameters are there.
  const std::vector<RankRange>& nodes_of(uint64_t step) const {
    return step == step_ ? left_ : all_;
  }

  uint64_t step() const { return step_; }
  bool anything_left() const { return !left_.empty(); }
  const std::vector<NodeSum>& sums() const { return sums_; }
  std::vector<NodeSum> sums_with(std::vector<NodeSum> more) const {
    more.insert(more.end(), sums_.begin(), sums_.end());
    return more;
  }
  /// The nodes that a seal reports: nobody else need compute them.
  std::vector<RankRange> nodes() const {
    std::vector<RankRange> out;
    if (computing_step_ == step_) // else an epoch led to another one meanwhile
      out = computing_;
    for (const auto& sum : sums_)
      out.push_back(sum.node);
    return out;
  }

private:
  uint64_t step_ = 0;
  std::vector<RankRange> all_; ///< of the worker's ranks
  std::vector<RankRange> left_;
  std::vector<RankRange> computing_;
  uint64_t computing_step_ = 0;
  std::vector<NodeSum> sums_;
};

} // namespace troupe
