#include "kernels/graph/stacked_leaves.hpp"

#include <utility>

namespace troupe {

bool stacks(const Graph& graph) {
  std::vector<bool> used(graph.parameters.size());
  for (const auto& op : graph.ops) {
    switch (op.kind) {
      case OpKind::dense:
      case OpKind::reshape:
      case OpKind::activation:
      case OpKind::add:
      case OpKind::softmax_cross_entropy:
      case OpKind::sigmoid_cross_entropy:
      case OpKind::mean_squared_error:
        break;
      default:
        return false;
    }
    for (auto parameter : op.parameters) {
      if (used[parameter])
        return false;
      used[parameter] = true;
    }
  }
  return true;
}

} // namespace troupe
