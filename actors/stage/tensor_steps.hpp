#pragma once

#include "actors/stage/split_steps.hpp"
#include "kernels/engine/tensor_replica.hpp"

#include <memory>
#include <span>
#include <vector>

namespace troupe {

/// A tensor member without its actor: the passes of its slices, from sum to
/// sum, and its updates. It keeps the slices of its pieces, and those of what
/// nobody cuts, which every member updates alike. All calls from tasks of the
/// executor, or while it is idle, but replica().
class TensorSteps : public SplitSteps {
public:
  TensorSteps(const RoleContext& context, Executor& executor,
              std::shared_ptr<ShardStore> store);

  const TensorReplica& replica() const { return *replica_; }
  uint32_t sums() const {
    return static_cast<uint32_t>(replica_->part().sums.size());
  }

  /// No more than this member has of all that it needs: of what all keep the
  /// first one shows it.
  std::vector<SliceState> held() const override;

  /// What became of a micro-batch that was computed as far as can be; one
  /// without samples waits for a sum of no elements.
  struct Pass {
    bool done = false;
    TensorView partial; ///< unless done: this member's, of the sum it waits for
    LeafLoss loss;      ///< once done
  };
  Pass begin(uint32_t rank);
  /// Shapes: partials [members], each of the sum that the last call told of;
  /// the own one may be empty.
  Pass go_on(uint32_t rank, const std::vector<TensorView>& partials);

private:
  void abandon() override { place_ = {}; }
  bool shows(uint32_t slice) const override {
    return job_.plan.owner[slice] == own_;
  }

  void add_up(const std::vector<TensorView>& partials);
  Pass advance(uint32_t rank);
  Chunk& whole() { return chunks_.front(); }

  uint32_t own_; ///< place in its group
  std::unique_ptr<TensorReplica> replica_;
  std::vector<uint32_t> addends_; ///< members, in the order of their sum
  std::vector<uint32_t> merges_;  ///< after each of them
  BatchMemory samples_;
  std::span<float> place_; ///< of the sum that is waited for
};

} // namespace troupe
