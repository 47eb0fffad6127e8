#include "actors/job/stage_memory.hpp"

#include "actors/job/stage_layers.hpp"
#include "actors/job/stage_mesh.hpp"

#include <algorithm>
#include <bit>

namespace troupe {
namespace {

/// That a stage has of a gradient which others have the rest of.
uint64_t max_nodes(const Mesh& mesh, uint32_t virtual_ranks) {
  const MeshSum sum{mesh, virtual_ranks};
  size_t most = 0;
  for (uint32_t pipeline = 0; pipeline < mesh.data; ++pipeline)
    most = std::max(most, sum.nodes(pipeline).size());
  return most;
}

/// Whether there is a gradient of all pipelines beside its leaves.
uint64_t whole_gradients(const JobOptions& options) {
  return mesh_of(options).data > 1 && !has_served_stages(options) ? 1 : 0;
}

} // namespace

/// One is made while others wait: a level of the tree each or, beside other
/// pipelines, a node that these have no part of.
uint64_t sums_of_step(const JobOptions& options) {
  const auto waiting =
    std::max<uint64_t>(std::bit_width(micro_batches(options)),
                       max_nodes(mesh_of(options), options.virtual_ranks));
  return 1 + waiting + whole_gradients(options);
}

uint64_t copies_for_shards(const JobOptions& options) {
  return has_served_stages(options)
           ? max_nodes(mesh_of(options), options.virtual_ranks)
           : 0;
}

StageMemory::StageMemory(const JobOptions& options, const Graph& graph,
                         uint32_t rows)
  : graph_(graph),
    banks_(has_served_stages(options)
             ? 0
             : 2 * (1 + state_slots(options.rule.kind))),
    sums_(sums_of_step(options)),
    sums_at_once_(std::max<uint64_t>(sums_, micro_batches(options)
                                              + whole_gradients(options))),
    copies_(copies_for_shards(options)) {
  const auto shape = pipeline_shape(options, micro_batches(options));
  for (uint32_t part = 0; part < shape.stages * shape.chunks; ++part)
    options_.push_back(stage_options(options, graph, part, rows,
                                     precision_named(options.precision)));
  if (on_processors(options))
    activations_ = make_part_memory(graph, options_.front());
}

StageMemory::~StageMemory() = default;

const StageMemory::Known& StageMemory::known(OpRange ops) {
  auto [at, is_new] = parts_.try_emplace({ops.begin, ops.end});
  auto& known = at->second;
  if (!is_new)
    return known;
  known.part = part_of(graph_, ops);
  known.at_once =
    !rank_sums(graph_, known.part, options_.front().recompute).empty();
  known.flat = Layout{graph_, known.part.parameters}.total;
  for (auto parameter : known.part.kept)
    known.kept += graph_.parameters[parameter].size();
  return known;
}

/// Two banks of what it keeps, if no shard does, a copy to compute with, a sum
/// that grows by a leaf for each level of the tree, or all leaves where they
/// come at once.
StageMemory::Bytes StageMemory::of(uint32_t part, OpRange ops, bool with_step) {
  const auto& found = known(ops);
  Bytes bytes;
  bytes.variables = (banks_ * found.kept + found.flat) * sizeof(float);
  const auto sums = found.at_once ? sums_at_once_ : sums_;
  bytes.gradients = (sums * found.flat + copies_ * found.kept) * sizeof(float);
  if (with_step && activations_)
    bytes.step = activations_->bytes(found.part, options_[part]);
  return bytes;
}

} // namespace troupe
