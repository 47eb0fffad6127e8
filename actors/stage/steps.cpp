#include "actors/stage/steps.hpp"

#include "actors/compute/leaf_computer.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/job/stage_layers.hpp"
#include "actors/links/link_memory.hpp"
#include "kernels/cpu/vector_loops.hpp"
#include "kernels/numbers/random.hpp"
#include "kernels/optimizer/optimizer.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

StageSteps::Part::Part(std::unique_ptr<StageReplica> made, bool one_of_several)
  : replica(std::move(made)),
    parameters(std::max<size_t>(1, replica->layout().total)),
    sums(std::max<size_t>(1, replica->layout().total)),
    gradient(one_of_several ? std::max<size_t>(1, replica->layout().total)
                            : size_t{1}) {
  parameters.fill(0);
  gradient.fill(0);
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
    mesh_.data > 1);
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

StageSteps::Copy StageSteps::copy(uint32_t slice, uint64_t version) const {
  const auto count = job_.plan.slices[slice].count;
  return {{store_, store_->values(slice, version), count},
          {store_, store_->state(slice, version),
           copy_elements(slice) - count}};
}

uint64_t StageSteps::copy_elements(uint32_t slice) const {
  return job_.plan.slices[slice].count
         * (1 + state_slots(job_.options.rule.kind));
}

void StageSteps::install(uint32_t slice, uint64_t version,
                         const TensorView& copy) {
  const auto count = job_.plan.slices[slice].count;
  const auto target = store_->replace(slice, version);
  std::copy_n(copy.data(), count, target.values);
  std::copy_n(copy.data() + count, copy.size() - count, target.state);
  store_->install(slice, version, {});
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

std::shared_ptr<float> StageSteps::take(size_t count) const {
  if (const auto memory = context_.memory())
    if (auto lent = memory->take(count))
      return lent;
  auto own = std::make_shared<Buffer>(std::max<size_t>(1, count));
  return {own, own->data()};
}

/// Those that no layer of the part uses go on as they came.
TensorView StageSteps::shared_on(const Part& part, const float* shared) const {
  const auto& crossing = part.replica->part();
  const auto count = parameter_elements(job_.graph, crossing.out);
  auto values = take(count);
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
  auto out = take(count);
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
  auto out = take(count);
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

TensorView StageSteps::copy_of(const float* values, uint64_t count) const {
  auto memory = take(count);
  std::copy_n(values, count, memory.get());
  const auto* first = memory.get();
  return {std::move(memory), first, count};
}

std::vector<StageSteps::Given> StageSteps::give(const MeshSum::Step& sum) {
  std::vector<Given> out;
  for (uint32_t chunk = 0; chunk < chunks(); ++chunk) {
    const auto& part = parts_[chunk];
    for (auto node : sum.nodes[pipeline_])
      for (uint32_t to = 0; to < mesh_.data; ++to) {
        if (to == pipeline_)
          continue;
        const auto share = share_of(to, mesh_.data, part.elements());
        out.push_back(
          {to, chunk, node,
           copy_of(part.sums.sum(node) + share.begin, share.size())});
      }
  }
  return out;
}

std::vector<TensorView> StageSteps::add(const MeshSum::Step& sum,
                                        const StagePeers& peers,
                                        const Came& nodes) {
  std::vector<TensorView> out;
  for (uint32_t chunk = 0; chunk < chunks(); ++chunk)
    out.push_back(add(sum, chunk, peers, nodes));
  return out;
}

/// With a stack, as the addends say. What others sent is read where it lies.
TensorView StageSteps::add(const MeshSum::Step& sum, uint32_t chunk,
                           const StagePeers& peers, const Came& nodes) {
  auto& part = parts_[chunk];
  const auto share = share_of(pipeline_, mesh_.data, part.elements());
  struct Addend {
    const float* values;
    std::shared_ptr<float> own; ///< null: it is not to be written to
  };
  std::vector<Addend> stack;
  for (const auto& addend : sum.addends) {
    const auto node = sum.nodes[addend.member][addend.node];
    const auto* values = addend.member == pipeline_
                           ? part.sums.sum(node) + share.begin
                           : nodes.at(peers.number_of_node(chunk, node)).data();
    stack.push_back({values, nullptr});
    for (auto merges = addend.merges; merges > 0; --merges) {
      const auto right = std::move(stack.back());
      stack.pop_back();
      auto& left = stack.back();
      auto into = left.own    ? left.own
                  : right.own ? right.own
                              : take(share.size());
      troupe::add(left.values, right.values, into.get(), share.size());
      left.values = into.get();
      left.own = std::move(into);
    }
  }
  auto& whole = stack.front();
  std::copy_n(whole.values, share.size(), part.gradient.data() + share.begin);
  if (!whole.own)
    return copy_of(whole.values, share.size());
  return {std::move(whole.own), whole.values, share.size()};
}

void StageSteps::complete(const StagePeers& peers, const Came& shares) {
  for (uint32_t chunk = 0; chunk < chunks(); ++chunk) {
    auto& part = parts_[chunk];
    for (uint32_t from = 0; from < mesh_.data; ++from) {
      if (from == pipeline_)
        continue;
      const auto share = share_of(from, mesh_.data, part.elements());
      std::copy_n(shares.at(peers.number_of_share(chunk, from)).data(),
                  share.size(), part.gradient.data() + share.begin);
    }
  }
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
