#include "actors/stage/steps.hpp"

#include "actors/compute/leaf_computer.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/job/stage_layers.hpp"
#include "actors/stage/lent_floats.hpp"
#include "kernels/cpu/vector_loops.hpp"
#include "kernels/numbers/random.hpp"
#include "kernels/optimizer/optimizer.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe {

StageSteps::Part::Part(std::unique_ptr<StageReplica> made,
                       const RoleContext& context, uint32_t chunk)
  : replica(std::move(made)),
    parameters(std::max<size_t>(1, replica->layout().total)),
    sums(std::max<size_t>(1, replica->layout().total)),
    of_peers(context, chunk, replica->layout().total) {
  parameters.fill(0);
}

StageSteps::StageSteps(const RoleContext& context, Executor& executor,
                       std::shared_ptr<ShardStore> store)
  : context_(context),
    job_(*context.job),
    executor_(executor),
    mesh_(mesh_of(job_.options)),
    pipeline_(mesh_.pipeline_of(context.role.index)),
    store_(std::move(store)),
    slices_(job_.plan.role(context.role).slices),
    sampling_(job_.sampling) {
  for (auto i = mesh_.stage_of(context.role.index); i < job_.plan.stages.size();
       i += mesh_.stages)
    add_part(i);
}

void StageSteps::add_part(uint32_t index) {
  const auto& layers = job_.plan.stages[index];
  auto& part = parts_.emplace_back(
    make_stage_replica(
      job_.graph, part_of(job_.graph, {layers.begin, layers.end}),
      parse_device(job_.plan.role(context_.role).device),
      stage_options(job_.options, index, job_.max_rows(), job_.precision())),
    context_, chunks());
  part.reads_samples = reads_samples(part.replica->part());
  for (uint32_t i = 0; i < layers.in_flight; ++i)
    part.batches.emplace_back(job_.graph,
                              part.reads_samples ? job_.max_rows() : 0);
  for (auto slice : slices_)
    if (std::ranges::find(layers.variables, job_.plan.slices[slice].variable)
        != layers.variables.end())
      kept_[slice] = chunks() - 1;
}

bool StageSteps::reads_samples(const GraphPart& part) const {
  const auto& graph = job_.graph;
  for (auto op = part.ops.begin; op < part.ops.end; ++op)
    for (auto input : graph.ops[op].inputs)
      if (graph.features_value == input || graph.ids_value == input)
        return true;
  return part.ops.end == graph.ops.size();
}

std::vector<SliceState> StageSteps::held() const {
  std::vector<SliceState> out;
  for (auto slice : slices_)
    if (store_->holds(slice))
      out.push_back({slice,
                     store_->oldest(slice),
                     store_->newest(slice),
                     {},
                     0,
                     {},
                     store_->lineage(slice)});
  return out;
}

void StageSteps::reset(const std::shared_ptr<const Beginning>& beginning) {
  store_->reset(slices_, beginning);
}

void StageSteps::enter(uint64_t version, uint64_t epoch) {
  for (auto slice : slices_)
    store_->set_lineage(slice, epoch);
  for (auto& part : parts_)
    part.replica->abandon();
  load(version);
}

void StageSteps::load(uint64_t version) {
  for (auto [id, chunk] : kept_) {
    auto& part = parts_[chunk];
    const auto& slice = job_.plan.slices[id];
    std::copy_n(store_->values(id, version), slice.count,
                part.parameters.data()
                  + part.replica->layout().offsets[slice.variable]
                  + slice.offset);
  }
}

PeerCopy StageSteps::copy(uint32_t slice, uint64_t version) const {
  return copy_of(job_, store_, slice, version);
}

uint64_t StageSteps::copy_elements(uint32_t slice) const {
  return troupe::copy_elements(job_, slice);
}

void StageSteps::install(uint32_t slice, uint64_t version,
                         const TensorView& copy) {
  install_copy(job_, *store_, slice, version, copy);
}

void StageSteps::begin_step(uint64_t step) {
  step_ = step;
  std::vector<uint32_t> samples;
  for (uint32_t rank = 0; rank < job_.options.virtual_ranks; ++rank)
    samples.push_back(sampling_.rank(step, rank).count);
  const auto own = mesh_.ranks(pipeline_, job_.options.virtual_ranks);
  for (auto& part : parts_)
    part.sums.begin(samples, own);
}

TensorView StageSteps::share(uint32_t chunk, const float* shared) {
  auto& part = parts_[chunk];
  const auto& crossing = part.replica->part();
  const auto* from = shared;
  for (auto parameter : crossing.in.parameters) {
    const auto count = job_.graph.parameters[parameter].size();
    const auto at = part.replica->layout().offsets[parameter];
    if (at != Layout::nowhere)
      std::copy_n(from, count, part.parameters.data() + at);
    from += count;
  }
  return crossing.out.parameters.empty() ? TensorView{}
                                         : shared_on(part, shared);
}

/// Those that no layer of the part uses go on as they came.
TensorView StageSteps::shared_on(const Part& part, const float* shared) const {
  const auto& crossing = part.replica->part();
  const auto count = parameter_elements(job_.graph, crossing.out);
  auto values = lent_floats(context_, count);
  auto* to = values.get();
  for (auto parameter : crossing.out.parameters) {
    const auto* from = shared;
    for (auto other : crossing.in.parameters)
      if (other < parameter)
        from += job_.graph.parameters[other].size();
    if (const auto at = part.replica->layout().offsets[parameter];
        at != Layout::nowhere)
      from = part.parameters.data() + at;
    to = std::copy_n(from, job_.graph.parameters[parameter].size(), to);
  }
  const auto* first = values.get();
  return {std::move(values), first, count};
}

Batch StageSteps::gather(Part& part, uint32_t number, uint32_t rank) {
  const auto rows = sampling_.rank(step_, rank).count;
  const auto key = kernels::batch_key(job_.options.seed, step_, rank);
  Batch batch;
  if (part.reads_samples) {
    auto& memory = part.batches[part.slot_of(number)];
    sampling_.indices(step_, rank, rows_);
    context_.data.train->gather(rows_.data(), rows, memory,
                                DataPass{job_.options.seed,
                                         sampling_.step(step_).data_epoch});
    batch = memory.batch(rows, key);
  }
  batch.rows = rows;
  batch.key = key;
  batch.step = {sampling_.step(step_).count, sampling_.filled(step_)};
  return batch;
}

StageSteps::Pass StageSteps::pass(const StageAction& action, uint32_t rank,
                                  const float* in) {
  auto& part = parts_[action.chunk];
  if (sampling_.rank(step_, rank).count == 0)
    return {};
  return action.pass == StagePass::forward
           ? forward(part, action.micro_batch, rank, in)
           : backward(part, action, rank, in);
}

StageSteps::Pass StageSteps::forward(Part& part, uint32_t number, uint32_t rank,
                                     const float* in) {
  const auto batch = gather(part, number, rank);
  const auto count = forward_elements(job_.graph, part.replica->part().out,
                                      batch.rows);
  auto out = lent_floats(context_, count);
  const auto stats = part.replica->forward(
    part.slot_of(number), part.parameters.data(), batch, in, out.get());
  const auto* first = out.get();
  return {{std::move(out), first, count}, {rank, stats.loss_sum, batch.rows}};
}

StageSteps::Pass StageSteps::backward(Part& part, const StageAction& action,
                                      uint32_t rank, const float* in) {
  const auto slot = part.slot_of(action.micro_batch);
  auto& replica = *part.replica;
  if (action.pass == StagePass::backward_weights) {
    replica.backward_weights(slot, part.sums.next());
    part.sums.put(rank);
    return {};
  }
  const auto count = backward_elements(job_.graph, replica.part().in,
                                       sampling_.rank(step_, rank).count);
  auto out = lent_floats(context_, count);
  if (action.pass == StagePass::backward_inputs) {
    replica.backward_inputs(slot, in, out.get());
  } else {
    replica.backward(slot, in, part.sums.next(), out.get());
    part.sums.put(rank);
  }
  const auto* first = out.get();
  return {{std::move(out), first, count}, {}};
}

std::vector<uint64_t> StageSteps::gradient_elements() const {
  std::vector<uint64_t> out;
  for (const auto& part : parts_)
    out.push_back(part.elements());
  return out;
}

std::vector<StageSteps::Given> StageSteps::give(const MeshSum::Step& sum) {
  std::vector<Given> out;
  for (const auto& part : parts_)
    std::ranges::move(part.of_peers.give(sum, part.sums),
                      std::back_inserter(out));
  return out;
}

std::vector<TensorView> StageSteps::add(const MeshSum::Step& sum,
                                        const StagePeers& peers,
                                        const PeerValues& nodes) {
  std::vector<TensorView> out;
  for (auto& part : parts_)
    out.push_back(part.of_peers.add(sum, part.sums, peers, nodes));
  return out;
}

void StageSteps::complete(const StagePeers& peers, const PeerValues& shares) {
  for (auto& part : parts_)
    part.of_peers.complete(peers, shares);
}

UpdateMoment StageSteps::moment() const {
  return {step_ + store_->count_from(), step_, sampling_.step(step_).count};
}

UpdateArgs StageSteps::arguments(const Slice& slice,
                                 const StepScalars& scalars) const {
  auto args = slice_update(job_, slice, moment(), scalars);
  const auto& part = parts_[kept_.at(slice.id)];
  args.gradient_sum = gradient(part)
                      + part.replica->layout().offsets[slice.variable]
                      + slice.offset;
  args.in = store_->values(slice.id, step_);
  args.state_in = store_->state(slice.id, step_);
  args.state_stride = slice.count;
  return args;
}

std::vector<double> StageSteps::sums(ScalarRoundKind round,
                                     const StepScalars& scalars) {
  std::vector<std::vector<double>> of_slices(slices_.size());
  executor_.parallel_for(slices_.size(), [&](size_t i, uint32_t) {
    const auto& slice = job_.plan.slices[slices_[i]];
    of_slices[i] = slice_sums(job_, slice, round, arguments(slice, scalars));
  });
  std::vector<double> out;
  for (const auto& sums : of_slices)
    out.insert(out.end(), sums.begin(), sums.end());
  return out;
}

std::string StageSteps::update(const StepScalars& scalars) {
  for (const auto& part : parts_)
    if (!all_finite(gradient(part), part.elements()))
      return "the gradient of step " + std::to_string(step_ + 1)
             + " is not finite: lower --lr or look at the data";
  executor_.parallel_for(slices_.size(), [&](size_t i, uint32_t) {
    const auto id = slices_[i];
    const auto& slice = job_.plan.slices[id];
    if (store_->newest(id) > step_)
      return; // before the step was broken off
    auto args = arguments(slice, scalars);
    const auto target = store_->begin(id);
    args.out = target.values;
    args.state_out = target.state;
    troupe::update(job_.options.rule, args);
    store_->commit(id);
  });
  load(step_ + 1);
  return {};
}

std::vector<SnapshotSlice> StageSteps::snapshot(uint64_t version) const {
  std::vector<SnapshotSlice> out;
  const auto slots = state_slots(job_.options.rule.kind);
  for (auto id : slices_) {
    const auto count = job_.plan.slices[id].count;
    if (version < store_->oldest(id) || store_->newest(id) < version)
      continue;
    SnapshotSlice part{context_.job_id,
                       version,
                       id,
                       TensorView::copy({store_->values(id, version), count}),
                       {},
                       {version + store_->count_from(),
                        version * job_.options.virtual_ranks,
                        {}}};
    for (uint32_t slot = 0; slot < slots; ++slot)
      part.state.push_back(
        TensorView::copy({store_->state(id, version) + slot * count, count}));
    out.push_back(std::move(part));
  }
  return out;
}

} // namespace troupe
