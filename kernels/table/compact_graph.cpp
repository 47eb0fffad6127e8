#include "kernels/table/compact_graph.hpp"

#include "kernels/base/require.hpp"

#include <algorithm>

namespace troupe {

namespace {

bool reads_ids(const Graph& graph, const Op& op) {
  return std::any_of(op.inputs.begin(), op.inputs.end(), [&](uint32_t value) {
    return graph.values[value].type == ValueType::int32;
  });
}

bool is_table(const Op& op) {
  return op.kind == OpKind::embedding || op.kind == OpKind::embedding_bag;
}

} // namespace

std::vector<uint32_t> sparse_parameters(const Graph& graph) {
  std::vector<uint32_t> tables;
  for (const auto& op : graph.ops) {
    if (!reads_ids(graph, op))
      continue;
    const bool passes_ids_on = graph.values[op.output].type == ValueType::int32;
    if (passes_ids_on)
      continue;
    if (!is_table(op) || !graph.parameters[op.parameters[0]].by_rows)
      return {};
    tables.push_back(op.parameters[0]);
  }
  std::sort(tables.begin(), tables.end());
  tables.erase(std::unique(tables.begin(), tables.end()), tables.end());
  return tables;
}

Graph compact_graph(Graph graph, const std::vector<uint32_t>& tables,
                    uint64_t rows) {
  kernels::require(rows > 0, "a compact table without rows");
  for (auto table : tables) {
    auto& shape = graph.parameters[table].shape;
    shape[0] = std::min(shape[0], rows);
  }
  for (auto& op : graph.ops)
    if (is_table(op))
      op.attributes.vocabulary = graph.parameters[op.parameters[0]].shape[0];
  return graph;
}

} // namespace troupe
