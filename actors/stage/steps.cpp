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
namespace {

std::unique_ptr<StageReplica> make_stage(const RoleContext& context) {
  const auto& job = *context.job;
  const auto& stage = job.plan.stages[context.role.index];
  return make_stage_replica(
    job.graph, part_of(job.graph, {stage.begin, stage.end}),
    parse_device(job.plan.role(context.role).device),
    stage_options(job.options, stage, context.role.index, job.max_rows(),
                  job.precision()));
}

} // namespace

StageSteps::StageSteps(const RoleContext& context, Executor& executor,
                       std::shared_ptr<ShardStore> store)
  : context_(context),
    job_(*context.job),
    executor_(executor),
    store_(std::move(store)),
    slices_(job_.plan.role(context.role).slices),
    sampling_(job_.sampling),
    replica_(make_stage(context)),
    reads_samples_(reads_samples()),
    parameters_(std::max<size_t>(1, replica_->layout().total)),
    sums_(std::max<size_t>(1, replica_->layout().total)) {
  parameters_.fill(0);
  for (uint32_t i = 0; i < job_.plan.stages[context.role.index].in_flight; ++i)
    batches_.emplace_back(job_.graph, reads_samples_ ? job_.max_rows() : 0);
}

bool StageSteps::reads_samples() const {
  const auto& graph = job_.graph;
  for (auto op = part().ops.begin; op < part().ops.end; ++op)
    for (auto input : graph.ops[op].inputs)
      if (graph.features_value == input || graph.ids_value == input)
        return true;
  return is_last();
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
  replica_->abandon();
  load(version);
}

void StageSteps::load(uint64_t version) {
  for (auto id : slices_) {
    const auto& slice = job_.plan.slices[id];
    std::copy_n(store_->values(id, version), slice.count,
                parameters_.data() + replica_->layout().offsets[slice.variable]
                  + slice.offset);
  }
}

TensorView StageSteps::begin_step(uint64_t step, const float* shared) {
  step_ = step;
  const auto* from = shared;
  for (auto parameter : part().in.parameters) {
    const auto count = job_.graph.parameters[parameter].size();
    const auto at = replica_->layout().offsets[parameter];
    if (at != Layout::nowhere)
      std::copy_n(from, count, parameters_.data() + at);
    from += count;
  }
  std::vector<uint32_t> samples;
  for (uint32_t rank = 0; rank < job_.options.virtual_ranks; ++rank)
    samples.push_back(sampling_.rank(step, rank).count);
  sums_.begin(samples);
  return part().out.parameters.empty() ? TensorView{} : shared_on(shared);
}

std::shared_ptr<float> StageSteps::take(size_t count) const {
  if (const auto memory = context_.memory())
    if (auto lent = memory->take(count))
      return lent;
  auto own = std::make_shared<Buffer>(std::max<size_t>(1, count));
  return {own, own->data()};
}

/// Those that no layer of this stage uses go on as they came.
TensorView StageSteps::shared_on(const float* shared) const {
  const auto& crossing = part().out;
  const auto count = parameter_elements(job_.graph, crossing);
  auto values = take(count);
  auto* to = values.get();
  for (auto parameter : crossing.parameters) {
    const auto* from = shared;
    for (auto other : part().in.parameters)
      if (other < parameter)
        from += job_.graph.parameters[other].size();
    if (const auto at = replica_->layout().offsets[parameter];
        at != Layout::nowhere)
      from = parameters_.data() + at;
    to = std::copy_n(from, job_.graph.parameters[parameter].size(), to);
  }
  const auto* first = values.get();
  return {std::move(values), first, count};
}

Batch StageSteps::gather(uint32_t number, uint32_t rank) {
  const auto rows = sampling_.rank(step_, rank).count;
  const auto key = kernels::batch_key(job_.options.seed, step_, rank);
  Batch batch;
  if (reads_samples_) {
    auto& memory = batches_[slot_of(number)];
    sampling_.indices(step_, rank, rows_);
    context_.data.train->gather(rows_.data(), rows, memory);
    batch = memory.batch(rows, key);
  }
  batch.rows = rows;
  batch.key = key;
  batch.step = {sampling_.step(step_).count, sampling_.filled(step_)};
  return batch;
}

StageSteps::Pass StageSteps::forward(uint32_t number, uint32_t rank,
                                     const float* in) {
  const auto batch = gather(number, rank);
  const auto count = forward_elements(job_.graph, part().out, batch.rows);
  auto out = take(count);
  const auto stats = replica_->forward(slot_of(number), parameters_.data(),
                                       batch, in, out.get());
  const auto* first = out.get();
  return {{std::move(out), first, count}, {rank, stats.loss_sum, batch.rows}};
}

StageSteps::Pass StageSteps::backward(uint32_t number, uint32_t rank,
                                      const float* from_next) {
  auto out = take(elements_back(rank));
  replica_->backward(slot_of(number), from_next, sums_.next(), out.get());
  sums_.put(rank);
  const auto* first = out.get();
  return {{std::move(out), first, elements_back(rank)}, {}};
}

StageSteps::Pass StageSteps::backward_inputs(uint32_t number, uint32_t rank,
                                             const float* from_next) {
  auto out = take(elements_back(rank));
  replica_->backward_inputs(slot_of(number), from_next, out.get());
  const auto* first = out.get();
  return {{std::move(out), first, elements_back(rank)}, {}};
}

StageSteps::Pass StageSteps::backward_weights(uint32_t number, uint32_t rank) {
  replica_->backward_weights(slot_of(number), sums_.next());
  sums_.put(rank);
  return {};
}

uint64_t StageSteps::elements_back(uint32_t rank) const {
  return backward_elements(job_.graph, part().in,
                           sampling_.rank(step_, rank).count);
}

UpdateMoment StageSteps::moment() const {
  return {step_ + store_->count_from(), step_, sampling_.step(step_).count};
}

UpdateArgs StageSteps::arguments(const Slice& slice,
                                 const StepScalars& scalars) const {
  auto args = slice_update(job_, slice, moment(), scalars);
  args.gradient_sum = sums_.root() + replica_->layout().offsets[slice.variable]
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
  const auto* sum = sums_.root();
  const auto& layout = replica_->layout();
  if (!all_finite(sum, layout.total))
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
