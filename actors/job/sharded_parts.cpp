#include "actors/job/sharded_parts.hpp"

#include "actors/job/stage_mesh.hpp"
#include "kernels/base/error.hpp"
#include "kernels/graph/sleep_model.hpp"

#include <algorithm>

namespace troupe {
namespace {

uint64_t elements_of(const Graph& graph, const Op& op) {
  uint64_t elements = 0;
  for (auto parameter : op.parameters)
    elements += graph.parameters[parameter].size();
  return elements;
}

} // namespace

std::vector<OpRange> sharded_parts(const Graph& graph) {
  uint64_t most = 0;
  for (const auto& op : graph.ops)
    most = std::max(most, elements_of(graph, op));
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  std::vector<OpRange> parts;
  uint64_t held = 0;
  uint32_t begin = 0;
  for (uint32_t i = 0; i < ops; ++i) {
    const auto own = elements_of(graph, graph.ops[i]);
    if (i > begin && held + own > most) {
      parts.push_back({begin, i});
      begin = i;
      held = 0;
    }
    held += own;
  }
  parts.push_back({begin, ops});
  return parts;
}

StageOptions sharded_part_options(uint32_t rows, Precision precision) {
  StageOptions options;
  options.max_rows = rows;
  options.precision = precision;
  options.keeps_parameters = false; // all parts together have the model's
  return options;
}

StageReplicas make_sharded_parts(const Graph& graph, DeviceId device,
                                 uint32_t rows, Precision precision) {
  std::vector<GraphPart> parts;
  for (auto ops : sharded_parts(graph))
    parts.push_back(part_of(graph, ops));
  const std::vector<StageOptions> options(
    parts.size(), sharded_part_options(rows, precision));
  return make_stage_replicas(graph, parts, device, options);
}

void check_sharded_parts(const JobOptions& options, const Graph& graph) {
  if (options.strategy != Strategy::fully_sharded
      || options.cut.sharding == Sharding::optimizer)
    return;
  const auto sleep = sleep_model(graph.text);
  if (sleep && sleep->layers.empty())
    throw UsageError("--shard " + to_string(options.cut.sharding) + ": --model "
                     + options.model
                     + " has no layers to take one by one: use --shard "
                       "optimizer, or layers as in sleep:5ms+5ms");
}

ShardedBytes sharded_bytes(const JobOptions& options, const Graph& graph,
                           uint32_t rows, bool with_step) {
  const auto ranges = sharded_parts(graph);
  const bool keeps = options.cut.sharding != Sharding::parameters;
  uint64_t all = 0;
  uint64_t largest = 0;
  uint64_t crossing = 0;
  ShardedBytes bytes;
  const auto of_part = sharded_part_options(rows,
                                            precision_named(options.precision));
  const auto activations = with_step && on_processors(options)
                             ? make_part_memory(graph, of_part)
                             : nullptr;
  for (auto ops : ranges) {
    const auto part = part_of(graph, ops);
    const uint64_t flat = Layout{graph, part.parameters}.total;
    all += flat;
    largest = std::max(largest, flat);
    crossing = std::max(crossing, forward_elements(graph, part.out, rows)
                                    + backward_elements(graph, part.in, rows));
    if (activations)
      bytes.step += activations->bytes(part, of_part);
  }
  const auto window = std::min<uint64_t>(sharded_window, ranges.size());
  bytes.variables = (keeps ? all : window * largest) * sizeof(float);
  bytes.gradients = sharded_window * largest * sizeof(float);
  if (activations)
    bytes.step += 2 * crossing * sizeof(float);
  return bytes;
}

} // namespace troupe
