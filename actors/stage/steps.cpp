#include "actors/stage/steps.hpp"

#include "actors/compute/leaf_computer.hpp"
#include "actors/job/stage_layers.hpp"
#include "actors/stage/lent_floats.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

StageSteps::StageSteps(const RoleContext& context, Executor& executor,
                       std::shared_ptr<ShardStore> store)
  : SplitSteps(context, executor, std::move(store)) {
  for (auto i = mesh_.stage_of(context.role.index); i < job_.plan.stages.size();
       i += mesh_.stages)
    add_part(i);
}

void StageSteps::add_part(uint32_t index) {
  const auto& layers = job_.plan.stages[index];
  auto& part = parts_.emplace_back();
  part.replica = make_stage_replica(
    job_.graph, part_of(job_.graph, {layers.begin, layers.end}),
    parse_device(job_.plan.role(context_.role).device),
    stage_options(job_.options, index, job_.max_rows(), job_.precision()));
  part.reads_samples = reads_samples(part.replica->part());
  for (uint32_t i = 0; i < layers.in_flight; ++i)
    part.batches.emplace_back(job_.graph,
                              part.reads_samples ? job_.max_rows() : 0);
  std::vector<uint32_t> kept;
  for (auto slice : slices_)
    if (std::ranges::find(layers.variables, job_.plan.slices[slice].variable)
        != layers.variables.end())
      kept.push_back(slice);
  add_chunk(part.replica->layout(), kept);
}

bool StageSteps::reads_samples(const GraphPart& part) const {
  const auto& graph = job_.graph;
  for (auto op = part.ops.begin; op < part.ops.end; ++op)
    for (auto input : graph.ops[op].inputs)
      if (graph.features_value == input || graph.ids_value == input)
        return true;
  return part.ops.end == graph.ops.size();
}

void StageSteps::abandon() {
  for (auto& part : parts_)
    part.replica->abandon();
}

TensorView StageSteps::share(uint32_t chunk, const float* shared) {
  auto& own = chunks_[chunk];
  const auto& crossing = part(chunk);
  const auto* from = shared;
  for (auto parameter : crossing.in.parameters) {
    const auto count = job_.graph.parameters[parameter].size();
    const auto at = own.layout.offsets[parameter];
    if (at != Layout::nowhere)
      std::copy_n(from, count, own.parameters.data() + at);
    from += count;
  }
  return crossing.out.parameters.empty() ? TensorView{}
                                         : shared_on(chunk, shared);
}

/// Those that no layer of the part uses go on as they came.
TensorView StageSteps::shared_on(uint32_t chunk, const float* shared) const {
  const auto& own = chunks_[chunk];
  const auto& crossing = part(chunk);
  const auto count = parameter_elements(job_.graph, crossing.out);
  auto values = lent_floats(context_, count);
  auto* to = values.get();
  for (auto parameter : crossing.out.parameters) {
    const auto* from = shared;
    for (auto other : crossing.in.parameters)
      if (other < parameter)
        from += job_.graph.parameters[other].size();
    if (const auto at = own.layout.offsets[parameter]; at != Layout::nowhere)
      from = own.parameters.data() + at;
    to = std::copy_n(from, job_.graph.parameters[parameter].size(), to);
  }
  const auto* first = values.get();
  return {std::move(values), first, count};
}

StageSteps::Pass StageSteps::pass(const StageAction& action, uint32_t rank,
                                  const float* in) {
  if (rows_of(rank) == 0)
    return {};
  return action.pass == StagePass::forward ? forward(action, rank, in)
                                           : backward(action, rank, in);
}

StageSteps::Pass StageSteps::forward(const StageAction& action, uint32_t rank,
                                     const float* in) {
  auto& part = parts_[action.chunk];
  const auto slot = part.slot_of(action.micro_batch);
  const auto batch = gather(rank,
                            part.reads_samples ? &part.batches[slot] : nullptr);
  const auto count = forward_elements(job_.graph, part.replica->part().out,
                                      batch.rows);
  auto out = lent_floats(context_, count);
  const auto stats = part.replica->forward(
    slot, chunks_[action.chunk].parameters.data(), batch, in, out.get());
  const auto* first = out.get();
  return {{std::move(out), first, count}, {rank, stats.loss_sum, batch.rows}};
}

StageSteps::Pass StageSteps::backward(const StageAction& action, uint32_t rank,
                                      const float* in) {
  auto& part = parts_[action.chunk];
  auto& replica = *part.replica;
  auto& sums = chunks_[action.chunk].sums;
  const auto slot = part.slot_of(action.micro_batch);
  if (action.pass == StagePass::backward_weights) {
    replica.backward_weights(slot, sums.next());
    sums.put(rank);
    return {};
  }
  const auto count = backward_elements(job_.graph, replica.part().in,
                                       rows_of(rank));
  auto out = lent_floats(context_, count);
  if (action.pass == StagePass::backward_inputs) {
    replica.backward_inputs(slot, in, out.get());
  } else {
    replica.backward(slot, in, sums.next(), out.get());
    sums.put(rank);
  }
  const auto* first = out.get();
  return {{std::move(out), first, count}, {}};
}

} // namespace troupe
