#include "actors/job/stage_layers.hpp"

#include "actors/job/stage_memory.hpp"
#include "actors/job/tensor_layers.hpp"
#include "kernels/base/error.hpp"
#include "kernels/graph/forward_flops.hpp"
#include "kernels/graph/sleep_model.hpp"
#include "kernels/graph/stages.hpp"
#include "strategies/stage_cuts.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

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

/// Without times: a third of the FLOPs forward, as each half of backward; who
/// has no parameters has no half for weights.
OperatorTime in_flops(const Graph& graph, uint32_t op, uint64_t rows) {
  const auto all = time_of(graph, op) * rows;
  const auto forward = all / 3;
  const auto weights = graph.ops[op].parameters.empty() ? 0 : all / 3;
  return {forward, all - forward, all - forward - weights, weights};
}

CutProblem problem_of(uint32_t parts, const Graph& graph, uint32_t rows,
                      const std::vector<OperatorTime>& times) {
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  CutProblem problem;
  problem.in_flight.assign(parts, 1);
  for (uint32_t op = 0; op < ops; ++op) {
    const auto time = times.empty() ? in_flops(graph, op, rows) : times[op];
    problem.ops.push_back({time.forward + time.backward, 0, 0});
  }
  for (uint32_t op = 0; op <= ops; ++op) {
    const auto bytes = bytes_forward(graph, op, rows)
                       + bytes_back(graph, op, rows);
    problem.cuts.push_back({0, bytes, true});
  }
  return problem;
}

/// Which operators a stage has memory for. It takes more for each that is added
/// to a range, so that few ranges are looked at of the many that there are.
class FittingRanges {
public:
  FittingRanges(const JobOptions& options, const Graph& graph, uint32_t rows,
                uint64_t limit)
    : memory_(options, graph, rows),
      limit_(limit),
      ops_(static_cast<uint32_t>(graph.ops.size())) {}

  bool has(uint32_t part, OpRange ops) {
    auto [at, is_new] = ends_.try_emplace({part, ops.begin});
    if (is_new)
      at->second = last_end(part, ops.begin);
    return ops.end <= at->second;
  }

private:
  /// The longest range's; `begin` where not even one operator fits.
  uint32_t last_end(uint32_t part, uint32_t begin) {
    auto fits = begin;
    for (auto too_far = ops_ + 1; fits + 1 < too_far;) {
      const auto middle = fits + (too_far - fits) / 2;
      if (fits_in(part, {begin, middle}))
        fits = middle;
      else
        too_far = middle;
    }
    return fits;
  }

  bool fits_in(uint32_t part, OpRange ops) {
    return memory_.of(part, ops, false).total() <= limit_
           && memory_.of(part, ops).total() <= limit_;
  }

  StageMemory memory_;
  uint64_t limit_;
  uint32_t ops_;
  /// By part and first operator, as they were asked for.
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> ends_;
};

/// The operator that a name is of; the graph's operators, if none. A layer in
/// slices begins with what is named after its first ones.
uint32_t op_named(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find_if(graph.ops, [&](const Op& op) {
    return op.name == name || op.name.starts_with(name + '[');
  });
  return static_cast<uint32_t>(found - graph.ops.begin());
}

/// Whether an operator has a name, or is of a layer that has it: of block_0
/// is block_0.norm, and of a layer in slices what is named after it.
bool belongs_to(const Op& op, const std::string& name) {
  return op.name == name || op.name.starts_with(name + '.')
         || op.name.starts_with(name + '[');
}

bool recomputes_layers(const JobOptions& options) {
  return options.schedule.recompute != "none"
         && options.schedule.recompute != "full";
}

/// The layers that are computed again, by operator (StageOptions). A tensor
/// member need not have something of each.
std::vector<uint32_t> layers_again(const JobOptions& options,
                                   const Graph& graph) {
  std::vector<uint32_t> layers(graph.ops.size(), 0);
  std::istringstream names{options.schedule.recompute};
  uint32_t number = 0;
  for (std::string name; std::getline(names, name, ',');) {
    ++number;
    for (size_t op = 0; op < layers.size(); ++op)
      if (layers[op] == 0 && belongs_to(graph.ops[op], name))
        layers[op] = number;
  }
  return layers;
}

void check_layers_again(const JobOptions& options, const Graph& graph) {
  const auto& text = options.schedule.recompute;
  const auto layers = layers_again(options, graph);
  std::istringstream names{text};
  uint32_t number = 0;
  for (std::string name; std::getline(names, name, ',');) {
    ++number;
    if (std::ranges::none_of(graph.ops, [&](const Op& op) {
          return belongs_to(op, name);
        }))
      throw UsageError("--recompute " + text + ": --model " + options.model
                       + " has no operator or layer '" + name
                       + "'; use none, full or names of `troupe model show`");
    if (std::ranges::find(layers, number) == layers.end())
      throw UsageError("--recompute " + text + ": " + name
                       + " is part of a layer before it; leave it out");
  }
}

/// Whether the name of an operator says where a cut before it is.
bool has_name_of_its_own(const Graph& graph, uint32_t op) {
  return graph.virtual_slices == 1 || op_named(graph, graph.ops[op].name) == op;
}

/// The first tensor member of each stage has as much to do as the others.
TensorPart first_member(const JobOptions& options, const Graph& graph) {
  const auto slices = slices_of_member(0, mesh_of(options).tensor,
                                       options.cut.virtual_slices);
  return tensor_part(graph, {slices.lo, slices.hi});
}

std::vector<OperatorTime> times_at(const std::vector<uint32_t>& places,
                                   const std::vector<OperatorTime>& times) {
  std::vector<OperatorTime> out;
  if (!times.empty())
    for (auto place : places)
      out.push_back(times[place]);
  return out;
}

/// Where stages begin, by what they take; nothing where there are none. A range
/// that `may` not be is no stage's.
std::optional<std::vector<uint32_t>>
found_cuts(const JobOptions& options, const Graph& graph,
           const PipelineShape& shape, uint32_t rows, CutProblem problem,
           const std::function<bool(OpRange)>& may) {
  std::optional<FittingRanges> fitting;
  if (options.cut.device_memory > 0)
    fitting.emplace(options, graph, rows,
                    options.cut.device_memory / shape.chunks);
  // Of stages that fit nowhere the fastest are named for what they need.
  for (bool fits : {true, false}) {
    if (fitting || may) {
      problem.memory_limit = 0;
      problem.memory = [&](uint32_t part, uint32_t begin, uint32_t end) {
        const OpRange ops{begin, end};
        return (may && !may(ops))
                   || (fits && fitting && !fitting->has(part, ops))
                 ? 1
                 : 0;
      };
    }
    if (auto cuts = cut_stages(problem))
      return cuts->begins;
  }
  return std::nullopt;
}

std::optional<std::vector<uint32_t>>
cuts_of_stages(const JobOptions& options, const Graph& graph,
               const PipelineShape& shape, uint32_t rows,
               const std::vector<OperatorTime>& times) {
  auto problem = problem_of(shape.stages * shape.chunks, graph, rows, times);
  for (uint32_t op = 0; op < graph.ops.size(); ++op)
    problem.cuts[op].allowed = has_name_of_its_own(graph, op);
  return found_cuts(options, graph, shape, rows, std::move(problem), {});
}

/// The same of stages of tensor members: by what the first member of each
/// takes. Each member has something of its own to show (tensor_shares()).
std::optional<std::vector<uint32_t>>
cuts_of_groups(const JobOptions& options, const Graph& graph,
               const PipelineShape& shape, uint32_t rows,
               const std::vector<OperatorTime>& times) {
  const auto members = mesh_of(options).tensor;
  const auto member = first_member(options, graph);
  const auto& own = member.graph;
  auto problem = problem_of(shape.stages * shape.chunks, own, rows,
                            times_at(member.places, times));
  for (size_t op = 0; op < own.ops.size(); ++op)
    problem.cuts[op].allowed = may_cut_before(graph, member.places[op])
                               && has_name_of_its_own(graph, member.places[op]);
  const auto may = [&](OpRange ops) {
    for (auto op = ops.begin; op < ops.end; ++op)
      if (own.ops[op].slices)
        return true;
    return part_of(own, ops).kept.size() >= members;
  };
  auto cuts = found_cuts(options, own, shape, rows, std::move(problem), may);
  if (cuts)
    for (auto& begin : *cuts)
      begin = member.places[begin];
  return cuts;
}

/// The flag that says how many stages there are.
std::string layout_flag(const JobOptions& options) {
  return options.strategy == Strategy::hybrid
           ? "--mesh " + to_string(options.cut.mesh)
           : "--stages " + std::to_string(options.stages);
}

[[noreturn]] void too_few(const JobOptions& options, const Graph& graph,
                          const PipelineShape& shape) {
  const bool several = shape.chunks > 1;
  throw UsageError(
    layout_flag(options)
    + (several ? " --chunks " + std::to_string(shape.chunks) : "")
    + ": --model " + options.model + " has " + std::to_string(graph.ops.size())
    + " operators, and each " + (several ? "chunk" : "stage")
    + " needs one; use fewer stages" + (several ? " or chunks" : ""));
}

[[noreturn]] void too_few_for_groups(const JobOptions& options,
                                     const PipelineShape& shape) {
  const bool several = shape.chunks > 1;
  throw UsageError(
    layout_flag(options)
    + (several ? " --chunks " + std::to_string(shape.chunks) : "")
    + ": --model " + options.model + " cannot be cut so, as each "
    + (several ? "chunk" : "stage")
    + " needs a layer in virtual slices, or as many variables as members; use "
      "fewer stages"
    + (several ? " or chunks" : ""));
}

std::vector<uint32_t> named_cuts(const JobOptions& options, const Graph& graph,
                                 const PipelineShape& shape) {
  std::vector<uint32_t> begins{0};
  std::istringstream names{options.cut.split_at};
  const auto flag = "--split-at " + options.cut.split_at;
  for (std::string name; std::getline(names, name, ',');) {
    begins.push_back(op_named(graph, name));
    if (begins.back() == graph.ops.size())
      throw UsageError(flag + ": --model " + options.model + " has no operator "
                       + name + "; see `troupe model show`");
    if (has_tensor_members(options) && !may_cut_before(graph, begins.back()))
      throw UsageError(flag + ": " + name
                       + " is within layers that tensor members share; name "
                         "the first of those, or one after them");
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
    flag + " makes " + std::to_string(begins.size()) + ' ' + what + "s of "
    + layout_flag(options)
    + (shape.chunks > 1 ? " --chunks " + std::to_string(shape.chunks) : "")
    + ": name the operator that each " + what + " but the first begins with");
}

void check_stages(const JobOptions& options, const Graph& graph) {
  const auto sleep = sleep_model(graph.text);
  if (sleep && sleep->layers.empty())
    throw UsageError("--model " + options.model
                     + " has no layers to cut: use another strategy, or layers "
                       "as in sleep:5ms+5ms");
  const auto norm = std::ranges::find_if(graph.ops, [](const Op& op) {
    return op.attributes.cross_replica;
  });
  const auto& order = options.schedule.order;
  if (norm != graph.ops.end() && options.virtual_ranks > 1 && order != "auto"
      && order != "gpipe")
    throw UsageError("--schedule " + order + ": operator " + norm->name
                     + " has cross_replica, so that all virtual ranks go "
                       "forward before one goes backward; use --schedule "
                       "gpipe, or leave it out");
  if (options.reduction == "fast")
    throw UsageError("--reduction fast has no effect with strategy "
                     + to_string(options.strategy)
                     + ", whose stages sum along the fixed tree: drop it");
}

} // namespace

bool names_cuts(const JobOptions& options) {
  const auto& text = options.cut.split_at;
  return !text.empty() && text != "measured" && !cuts_by_flops(options);
}

bool cuts_by_flops(const JobOptions& options) {
  return options.cut.split_at == "flops";
}

PipelineShape pipeline_shape(const JobOptions& options,
                             uint32_t micro_batches) {
  PipelineShape shape;
  if (options.schedule.order != "auto")
    parse(options.schedule.order, shape.schedule);
  shape.recompute = options.schedule.recompute != "none";
  const auto mesh = mesh_of(options);
  shape.stages = mesh.stages;
  shape.micro_batches = micro_batches;
  const bool interleaved = shape.schedule == PipelineSchedule::interleaved;
  // Pipelines need not have equally many: who has fewer leaves some out.
  if (interleaved && mesh.data > 1)
    shape.micro_batches = (micro_batches + mesh.stages - 1) / mesh.stages
                          * mesh.stages;
  shape.chunks = options.schedule.chunks > 0 ? options.schedule.chunks
                 : interleaved               ? 2
                                             : 1;
  return shape;
}

uint32_t micro_batches(const JobOptions& options) {
  return mesh_of(options).max_ranks(options.virtual_ranks);
}

std::vector<StageLayers> stage_layers(const JobOptions& options,
                                      const Graph& graph, uint32_t rows,
                                      const std::vector<OperatorTime>& times) {
  check_stages(options, graph);
  if (recomputes_layers(options))
    check_layers_again(options, graph);
  const bool grouped = has_tensor_members(options);
  if (grouped)
    check_tensor(options, graph);
  const auto shape = pipeline_shape(options, micro_batches(options));
  if (auto mistake = mistake_of(shape))
    throw UsageError(*mistake);
  const auto parts = shape.stages * shape.chunks;
  if (parts > graph.ops.size())
    too_few(options, graph, shape);
  auto found = names_cuts(options) ? named_cuts(options, graph, shape)
               : grouped ? cuts_of_groups(options, graph, shape, rows, times)
                         : cuts_of_stages(options, graph, shape, rows, times);
  if (!found && grouped)
    too_few_for_groups(options, shape);
  if (!found)
    too_few(options, graph, shape);
  const auto& begins = *found;
  const auto again = flops_again(options, graph);
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
      stage.flops += graph.flops_of(op) + again[op];
    stage.bytes_in = bytes_forward(graph, stage.begin, 1);
    stage.bytes_back = bytes_back(graph, stage.begin, 1);
    stage.in_flight = chunk_peak(shape, k % shape.stages, k / shape.stages);
    stages.push_back(std::move(stage));
  }
  return stages;
}

std::vector<uint64_t> flops_again(const JobOptions& options,
                                  const Graph& graph) {
  std::vector<uint64_t> flops(graph.ops.size(), 0);
  if (options.schedule.recompute == "none")
    return flops;
  const auto named = recomputes_layers(options)
                       ? layers_again(options, graph)
                       : std::vector<uint32_t>(flops.size(), 1);
  for (size_t op = 0; op < flops.size(); ++op)
    if (named[op] != 0)
      flops[op] = forward_flops(graph, graph.ops[op]);
  return flops;
}

std::string cuts_of(const std::vector<StageLayers>& layers) {
  std::string names;
  for (size_t k = 1; k < layers.size(); ++k)
    names += (k == 1 ? "" : ",") + layers[k].first;
  return names;
}

std::vector<PartCost> part_costs(const JobOptions& options, const Graph& graph,
                                 uint32_t rows,
                                 const std::vector<StageLayers>& layers,
                                 const std::vector<OperatorTime>& times) {
  TensorPart member;
  if (has_tensor_members(options)) {
    member = first_member(options, graph);
  } else {
    member.graph = graph;
    for (uint32_t op = 0; op < graph.ops.size(); ++op)
      member.places.push_back(op);
  }
  const auto& own = member.graph;
  const auto of_own = times_at(member.places, times);
  std::vector<uint32_t> again;
  if (recomputes_layers(options))
    again = layers_again(options, own);
  const bool halves = options.schedule.order == "zero_bubble";
  std::vector<PartCost> costs;
  for (const auto& part : layers) {
    PartCost cost{0, 0, 0};
    if (!again.empty())
      cost.again = 0;
    for (uint32_t op = 0; op < own.ops.size(); ++op) {
      if (member.places[op] < part.begin || member.places[op] >= part.end)
        continue;
      const auto time = of_own.empty() ? in_flops(own, op, rows) : of_own[op];
      cost.forward += time.forward;
      cost.backward_inputs += halves ? time.inputs : time.backward;
      cost.backward_weights += halves ? time.weights : 0;
      if (!again.empty() && again[op] != 0)
        *cost.again += time.forward;
    }
    costs.push_back(cost);
  }
  return costs;
}

StageOptions stage_options(const JobOptions& options, const Graph& graph,
                           uint32_t part, uint32_t rows, Precision precision) {
  const auto shape = pipeline_shape(options, micro_batches(options));
  StageOptions result;
  result.max_rows = rows;
  result.in_flight = chunk_peak(shape, part % shape.stages,
                                part / shape.stages);
  result.precision = precision;
  result.in_halves = shape.schedule == PipelineSchedule::zero_bubble;
  result.recompute = options.schedule.recompute == "full";
  if (recomputes_layers(options))
    result.layers = layers_again(options, graph);
  result.activations = activation_peak(shape, part % shape.stages);
  return result;
}

} // namespace troupe
