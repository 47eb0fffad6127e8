#pragma once

#include "actors/compute/step_gradient.hpp"
#include "kernels/engine/executor.hpp"
#include "strategies/rank_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace troupe {

/// The sum of a node of the fixed tree, whose leaves threads put in as they
/// come. While leaves are still to be computed, what is complete of the tree is
/// added at once, so that few vectors lie side by side; the rest is added by
/// all threads together.
class TreeSums {
public:
  /// A sum, and who keeps its memory. Shape: float [elements].
  struct Sum {
    float* values = nullptr; ///< null: no samples
    std::shared_ptr<SumBuffer> held;
  };

  TreeSums(RankRange node, size_t elements)
    : node_(node), elements_(elements) {}

  /// From any thread, once for each rank; `more`: of other ranks computation
  /// has not begun.
  void put(uint32_t rank, Sum leaf, bool more);
  /// Once all are in. From a task of the executor.
  Sum whole(Executor& executor) { return whole(node_, executor); }

private:
  std::optional<Sum> take(RankRange node);
  std::optional<Sum> meet(RankRange node, RankRange sibling, const Sum& sum);
  Sum whole(RankRange node, Executor& executor);

  RankRange node_;
  size_t elements_;
  std::mutex mutex_;
  std::map<RankRange, Sum> done_;
};

} // namespace troupe
