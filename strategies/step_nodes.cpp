#include "strategies/step_nodes.hpp"

#include "strategies/step_quorum.hpp"
#include "strategies/takeover.hpp"

#include <utility>

namespace troupe {

void StepNodes::begin_epoch(uint64_t step, RankRange ranks,
                            const std::vector<RankRange>& missing,
                            const std::vector<RankRange>& shares,
                            uint32_t virtual_ranks, bool together) {
  all_ = nodes_of_shares(ranks, shares, virtual_ranks);
  step_ = step;
  left_.clear();
  if (together) {
    if (!missing.empty())
      left_ = all_;
    return;
  }
  for (auto range : takeover_ranks(ranks, missing))
    for (auto node : nodes_of_shares(range, shares, virtual_ranks))
      left_.push_back(node);
}

void StepNodes::begin_step(uint64_t next) {
  step_ = next;
  left_ = all_;
}

void StepNodes::forget() {
  computing_.clear();
  left_.clear();
  step_ = 0;
}

const std::vector<RankRange>& StepNodes::compute() {
  computing_ = std::exchange(left_, {});
  computing_step_ = step_;
  return computing_;
}

/// An epoch may have led to another step meanwhile.
std::vector<RankRange> StepNodes::computing() const {
  return computing_step_ == step_ ? computing_ : std::vector<RankRange>{};
}

} // namespace troupe
