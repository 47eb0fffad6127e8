#include "kernels/graph/stages.hpp"

#include "kernels/base/require.hpp"

#include <algorithm>

namespace troupe {

namespace {

bool contains(const std::vector<uint32_t>& indices, uint32_t index) {
  return std::binary_search(indices.begin(), indices.end(), index);
}

std::vector<uint32_t> indices_of(const std::vector<uint8_t>& marks) {
  std::vector<uint32_t> result;
  for (uint32_t i = 0; i < marks.size(); ++i)
    if (marks[i])
      result.push_back(i);
  return result;
}

std::vector<uint8_t> used_parameters(const Graph& graph, OpRange ops) {
  std::vector<uint8_t> used(graph.parameters.size(), 0);
  for (auto op = ops.begin; op < ops.end; ++op)
    for (auto parameter : graph.ops[op].parameters)
      used[parameter] = 1;
  return used;
}

uint64_t value_elements(const Graph& graph, const std::vector<uint32_t>& values,
                        uint64_t rows) {
  uint64_t result = 0;
  for (auto value : values)
    result += graph.values[value].size() * rows;
  return result;
}

} // namespace

std::vector<uint8_t> wanted_gradients(const Graph& graph) {
  std::vector<uint8_t> wanted(graph.values.size(), 0);
  for (const auto& op : graph.ops) {
    bool any = !op.parameters.empty();
    for (auto input : op.inputs)
      any = any || wanted[input];
    wanted[op.output] = any;
  }
  return wanted;
}

Crossing crossing_before(const Graph& graph, uint32_t op) {
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  std::vector<uint8_t> written(graph.values.size(), 0);
  for (uint32_t i = 0; i < op; ++i)
    written[graph.ops[i].output] = 1;
  std::vector<uint8_t> crosses(graph.values.size(), 0);
  for (auto i = op; i < ops; ++i)
    for (auto input : graph.ops[i].inputs)
      crosses[input] = written[input];
  Crossing result;
  result.values = indices_of(crosses);
  const auto wanted = wanted_gradients(graph);
  for (auto value : result.values)
    if (wanted[value])
      result.gradients.push_back(value);
  auto shared = used_parameters(graph, {0, op});
  const auto after = used_parameters(graph, {op, ops});
  for (size_t i = 0; i < shared.size(); ++i)
    shared[i] = shared[i] && after[i];
  result.parameters = indices_of(shared);
  return result;
}

GraphPart part_of(const Graph& graph, OpRange ops) {
  kernels::require(ops.begin < ops.end && ops.end <= graph.ops.size(),
                   "a stage without operators of the graph");
  GraphPart part;
  part.ops = ops;
  part.in = crossing_before(graph, ops.begin);
  part.out = crossing_before(graph, ops.end);
  part.parameters = indices_of(used_parameters(graph, ops));
  for (auto parameter : part.parameters)
    if (!contains(part.in.parameters, parameter))
      part.kept.push_back(parameter);
  return part;
}

/// Backward a norm has none where nobody asks for the gradient of its input.
std::vector<uint64_t> rank_sums(const Graph& graph, const GraphPart& part,
                                bool forward) {
  const auto wanted = wanted_gradients(graph);
  std::vector<uint64_t> sums;
  for (auto i = part.ops.begin; i < part.ops.end; ++i) {
    const auto& op = graph.ops[i];
    if (op.attributes.cross_replica && (forward || wanted[op.inputs[0]]))
      sums.push_back(2 * graph.values[op.inputs[0]].shape.back());
  }
  if (!forward)
    std::reverse(sums.begin(), sums.end());
  return sums;
}

bool reads(const Graph& graph, const GraphPart& part,
           std::optional<uint32_t> value) {
  for (auto op = part.ops.begin; value && op < part.ops.end; ++op)
    if (std::ranges::find(graph.ops[op].inputs, *value)
        != graph.ops[op].inputs.end())
      return true;
  return false;
}

bool reads_samples(const Graph& graph, const GraphPart& part) {
  return reads(graph, part, graph.features_value)
         || reads(graph, part, graph.ids_value)
         || part.ops.end == graph.ops.size();
}

uint64_t forward_elements(const Graph& graph, const Crossing& crossing,
                          uint64_t rows) {
  return value_elements(graph, crossing.values, rows);
}

uint64_t backward_elements(const Graph& graph, const Crossing& crossing,
                           uint64_t rows) {
  return value_elements(graph, crossing.gradients, rows)
         + parameter_elements(graph, crossing);
}

uint64_t parameter_elements(const Graph& graph, const Crossing& crossing) {
  uint64_t result = 0;
  for (auto parameter : crossing.parameters)
    result += graph.parameters[parameter].size();
  return result;
}

} // namespace troupe
