#include "actors/job/stage_memory.hpp"

#include "actors/job/stage_layers.hpp"

#include <bit>

namespace troupe {

StageMemory::StageMemory(const JobOptions& options, const Graph& graph,
                         uint32_t rows)
  : graph_(graph),
    states_(1 + state_slots(options.rule.kind)),
    sums_(1 + std::bit_width(options.virtual_ranks)) {
  const auto shape = pipeline_shape(options, options.virtual_ranks);
  for (uint32_t part = 0; part < shape.stages * shape.chunks; ++part)
    options_.push_back(
      stage_options(options, part, rows, precision_named(options.precision)));
  activations_ = make_part_memory(graph, options_.front());
}

StageMemory::~StageMemory() = default;

const StageMemory::Known& StageMemory::known(OpRange ops) {
  auto [at, is_new] = parts_.try_emplace({ops.begin, ops.end});
  auto& known = at->second;
  if (!is_new)
    return known;
  known.part = part_of(graph_, ops);
  known.flat = Layout{graph_, known.part.parameters}.total;
  for (auto parameter : known.part.kept)
    known.kept += graph_.parameters[parameter].size();
  return known;
}

/// Two banks of what it keeps, a copy to compute with, a sum that grows by a
/// leaf for each level of the tree.
StageMemory::Bytes StageMemory::of(uint32_t part, OpRange ops, bool with_step) {
  const auto& found = known(ops);
  Bytes bytes;
  bytes.variables = (2 * states_ * found.kept + found.flat) * sizeof(float);
  bytes.gradients = sums_ * found.flat * sizeof(float);
  if (with_step)
    bytes.step = activations_->bytes(found.part, options_[part]);
  return bytes;
}

} // namespace troupe
