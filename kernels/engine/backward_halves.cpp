#include "kernels/engine/backward_halves.hpp"

#include "kernels/base/require.hpp"

#include <algorithm>

namespace troupe::kernels {

namespace {

bool any_of_marked(const std::vector<uint8_t>& marks,
                   const std::vector<uint32_t>& indices) {
  return std::any_of(indices.begin(), indices.end(),
                     [&](uint32_t index) { return marks[index] != 0; });
}

} // namespace

BackwardHalves halve_backward(const Graph& graph, const GraphPart& part,
                              const std::vector<Needs>& needs) {
  require(needs.size() == graph.ops.size(), "needs of other operators");
  BackwardHalves result;
  result.splits.assign(graph.ops.size(), 0);
  std::vector<uint8_t> whole(graph.parameters.size(), 0);
  for (auto parameter : part.in.parameters)
    whole[parameter] = 1;
  for (auto i = part.ops.begin; i < part.ops.end; ++i) {
    require(!needs[i].splits || !needs[i].in_place,
            "an operator in place whose backward pass comes in halves");
    result.splits[i] = needs[i].splits && !graph.ops[i].parameters.empty();
  }
  // Each round may find one more that shares with those found before.
  for (bool found = true; found;) {
    found = false;
    for (auto i = part.ops.begin; i < part.ops.end; ++i) {
      const auto& parameters = graph.ops[i].parameters;
      if (result.splits[i] && any_of_marked(whole, parameters))
        result.splits[i] = 0;
      if (result.splits[i])
        continue;
      for (auto parameter : parameters) {
        found = found || !whole[parameter];
        whole[parameter] = 1;
      }
    }
  }
  for (auto parameter : part.out.parameters)
    whole[parameter] = 1;
  for (auto parameter : part.parameters)
    if (whole[parameter])
      result.early.push_back(parameter);
  return result;
}

} // namespace troupe::kernels
