#include "actors/job/stage_layers.hpp"

#include "kernels/base/error.hpp"
#include "kernels/graph/sleep_model.hpp"
#include "kernels/graph/stages.hpp"
#include "strategies/stage_cuts.hpp"

#include <algorithm>
#include <sstream>

namespace troupe {

namespace {

/// What an operator that multiplies nothing costs of an element that it reads
/// or writes, in FLOPs.
constexpr uint64_t flops_of_element = 4;

/// Of a sample; of layers that wait, whatever the samples.
uint64_t time_of(const Graph& graph, uint32_t op) {
  if (const auto sleep = sleep_model(graph.text))
    return op < sleep->layers.size() ? sleep->layers[op] : 0;
  uint64_t elements = graph.values[graph.ops[op].output].size();
  for (auto input : graph.ops[op].inputs)
    elements += graph.values[input].size();
  return graph.flops_of(op) + flops_of_element * elements;
}

uint64_t bytes_forward(const Graph& graph, uint32_t op, uint64_t rows) {
  return sizeof(float)
         * forward_elements(graph, crossing_before(graph, op), rows);
}

uint64_t bytes_back(const Graph& graph, uint32_t op, uint64_t rows) {
  return sizeof(float)
         * backward_elements(graph, crossing_before(graph, op), rows);
}

CutProblem problem_of(uint32_t parts, const Graph& graph, uint32_t rows) {
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  CutProblem problem;
  problem.in_flight.assign(parts, 1);
  for (uint32_t op = 0; op < ops; ++op)
    problem.ops.push_back({time_of(graph, op) * rows, 0, 0});
  for (uint32_t op = 0; op <= ops; ++op) {
    const auto bytes = bytes_forward(graph, op, rows)
                       + bytes_back(graph, op, rows);
    problem.cuts.push_back({0, bytes, true});
  }
  return problem;
}

[[noreturn]] void too_few(const JobOptions& options, const Graph& graph,
                          const PipelineShape& shape) {
  const bool several = shape.chunks > 1;
  throw UsageError(
    "--stages " + std::to_string(options.stages)
    + (several ? " --chunks " + std::to_string(shape.chunks) : "")
    + ": --model " + options.model + " has " + std::to_string(graph.ops.size())
    + " operators, and each " + (several ? "chunk" : "stage")
    + " needs one; use fewer stages" + (several ? " or chunks" : ""));
}

std::vector<uint32_t> named_cuts(const JobOptions& options, const Graph& graph,
                                 const PipelineShape& shape) {
  std::vector<uint32_t> begins{0};
  std::istringstream names{options.cut.split_at};
  const auto flag = "--split-at " + options.cut.split_at;
  for (std::string name; std::getline(names, name, ',');) {
    // A layer in slices begins with what is named after its first ones.
    const auto found = std::ranges::find_if(graph.ops, [&](const Op& op) {
      return op.name == name || op.name.starts_with(name + '[');
    });
    if (found == graph.ops.end())
      throw UsageError(flag + ": --model " + options.model + " has no operator "
                       + name + "; see `troupe model`");
    begins.push_back(static_cast<uint32_t>(found - graph.ops.begin()));
    if (begins.back() <= begins[begins.size() - 2])
      throw UsageError(flag + ": " + name
                       + (begins.back() == 0
                            ? " is the first operator, with which the first "
                              "stage begins anyway; leave it out"
                            : " is not after the one before it; name "
                              "operators in the model's order"));
  }
  if (begins.size() == shape.stages * shape.chunks)
    return begins;
  const std::string what = shape.chunks > 1 ? "chunk" : "stage";
  throw UsageError(
    flag + " makes " + std::to_string(begins.size()) + ' ' + what
    + "s of --stages " + std::to_string(options.stages)
    + (shape.chunks > 1 ? " --chunks " + std::to_string(shape.chunks) : "")
    + ": name the operator that each " + what + " but the first begins with");
}

void check_stages(const JobOptions& options, const Graph& graph) {
  const auto sleep = sleep_model(graph.text);
  if (sleep && sleep->layers.empty())
    throw UsageError("--model " + options.model
                     + " has no layers to cut: use another strategy, or layers "
                       "as in sleep:5ms+5ms");
  if (options.reduction == "fast")
    throw UsageError("--reduction fast has no effect with strategy pipeline, "
                     "whose stages sum along the fixed tree: drop it");
}

} // namespace

PipelineShape pipeline_shape(const JobOptions& options,
                             uint32_t micro_batches) {
  PipelineShape shape;
  if (options.schedule.order != "auto")
    parse(options.schedule.order, shape.schedule);
  shape.recompute = options.schedule.recompute == "full";
  shape.stages = options.stages;
  shape.micro_batches = micro_batches;
  const bool interleaved = shape.schedule == PipelineSchedule::interleaved;
  shape.chunks = options.schedule.chunks > 0 ? options.schedule.chunks
                 : interleaved               ? 2
                                             : 1;
  return shape;
}

std::vector<StageLayers> stage_layers(const JobOptions& options,
                                      const Graph& graph, uint32_t rows) {
  check_stages(options, graph);
  const auto shape = pipeline_shape(options, options.virtual_ranks);
  if (auto mistake = mistake_of(shape))
    throw UsageError(*mistake);
  const auto parts = shape.stages * shape.chunks;
  if (parts > graph.ops.size())
    too_few(options, graph, shape);
  const auto begins = options.cut.split_at.empty()
                        ? cut_stages(problem_of(parts, graph, rows))->begins
                        : named_cuts(options, graph, shape);
  std::vector<StageLayers> stages;
  for (uint32_t k = 0; k < begins.size(); ++k) {
    StageLayers stage;
    stage.begin = begins[k];
    stage.end = k + 1 < begins.size() ? begins[k + 1]
                                      : static_cast<uint32_t>(graph.ops.size());
    stage.first = graph.ops[stage.begin].name;
    stage.last = graph.ops[stage.end - 1].name;
    stage.variables = part_of(graph, {stage.begin, stage.end}).kept;
    for (auto op = stage.begin; op < stage.end; ++op)
      stage.flops += graph.flops_of(op);
    stage.bytes_in = bytes_forward(graph, stage.begin, 1);
    stage.bytes_back = bytes_back(graph, stage.begin, 1);
    stage.in_flight = chunk_peak(shape, k % shape.stages, k / shape.stages);
    stages.push_back(std::move(stage));
  }
  return stages;
}

StageOptions stage_options(const JobOptions& options, const StageLayers& stage,
                           uint32_t part, uint32_t rows, Precision precision) {
  const auto shape = pipeline_shape(options, options.virtual_ranks);
  StageOptions result;
  result.max_rows = rows;
  result.in_flight = stage.in_flight;
  result.precision = precision;
  result.in_halves = shape.schedule == PipelineSchedule::zero_bubble;
  result.recompute = shape.recompute;
  result.activations = activation_peak(shape, part % shape.stages);
  return result;
}

} // namespace troupe
