#include "actors/stage/tensor_steps.hpp"

#include "actors/compute/leaf_computer.hpp"
#include "actors/job/stage_mesh.hpp"
#include "actors/job/tensor_layers.hpp"
#include "actors/stage/lent_floats.hpp"
#include "kernels/base/require.hpp"
#include "kernels/collective/sum_loops.hpp"
#include "kernels/cpu/vector_loops.hpp"
#include "kernels/numbers/random.hpp"
#include "kernels/optimizer/optimizer.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

TensorSteps::TensorSteps(const RoleContext& context, Executor& executor,
                         std::shared_ptr<ShardStore> store)
  : context_(context),
    job_(*context.job),
    executor_(executor),
    mesh_(mesh_of(job_.options)),
    own_(mesh_.slice_of(context.role.index)),
    store_(std::move(store)),
    slices_(job_.plan.role(context.role).slices),
    sampling_(job_.sampling),
    replica_(make_tensor_replica(
      tensor_part_of(job_.graph, job_.plan.share(context.role)),
      parse_device(job_.plan.role(context.role).device), job_.max_rows(),
      job_.precision())),
    samples_(job_.graph, job_.max_rows()),
    parameters_(std::max<size_t>(1, replica_->layout().total)),
    gradients_(std::max<size_t>(1, replica_->layout().total)),
    of_peers_(context_, 0, replica_->layout().total) {
  parameters_.fill(0);
  for (const auto& addend :
       tensor_addends(mesh_.tensor, job_.options.cut.virtual_slices)) {
    addends_.push_back(addend.member);
    merges_.push_back(addend.merges);
  }
}

bool TensorSteps::shows(uint32_t slice) const {
  return job_.plan.owner[slice] == own_;
}

/// An update that was cut short leaves some slices at the version before: what
/// all members go on from is at most what this one has of all of them.
std::vector<SliceState> TensorSteps::held() const {
  uint64_t oldest = 0;
  auto newest = ~uint64_t{0};
  for (auto slice : slices_) {
    if (!store_->holds(slice))
      return {};
    oldest = std::max(oldest, store_->oldest(slice));
    newest = std::min(newest, store_->newest(slice));
  }
  std::vector<SliceState> out;
  for (auto slice : slices_)
    if (shows(slice))
      out.push_back({slice,
                     std::min(oldest, newest),
                     newest,
                     {},
                     0,
                     {},
                     store_->lineage(slice)});
  return out;
}

void TensorSteps::reset(const std::shared_ptr<const Beginning>& beginning) {
  store_->reset(slices_, beginning);
}

void TensorSteps::enter(uint64_t version, uint64_t epoch) {
  for (auto slice : slices_)
    store_->set_lineage(slice, epoch);
  place_ = {};
  load(version);
}

void TensorSteps::load(uint64_t version) {
  for (auto id : slices_) {
    const auto& slice = job_.plan.slices[id];
    std::copy_n(store_->values(id, version), slice.count,
                parameters_.data() + replica_->layout().offsets[slice.variable]
                  + slice.offset);
  }
}

void TensorSteps::begin_step(uint64_t step) {
  step_ = step;
  std::vector<uint32_t> samples;
  for (uint32_t rank = 0; rank < job_.options.virtual_ranks; ++rank)
    samples.push_back(rows_of(rank));
  gradients_.begin(samples, mesh_.ranks(mesh_.pipeline_of(context_.role.index),
                                        job_.options.virtual_ranks));
}

TensorSteps::Pass TensorSteps::begin(uint32_t rank) {
  const auto rows = rows_of(rank);
  place_ = {};
  if (rows == 0)
    return {};
  sampling_.indices(step_, rank, rows_);
  context_.data.train->gather(rows_.data(), rows, samples_,
                              DataPass{job_.options.seed,
                                       sampling_.step(step_).data_epoch});
  auto batch =
    samples_.batch(rows, kernels::batch_key(job_.options.seed, step_, rank));
  batch.step = {sampling_.step(step_).count, sampling_.filled(step_)};
  replica_->begin(parameters_.data(), batch);
  return advance(rank);
}

TensorSteps::Pass TensorSteps::go_on(uint32_t rank,
                                     const std::vector<TensorView>& partials) {
  if (rows_of(rank) == 0)
    return {true, {}, {rank, 0, 0}};
  add_up(partials);
  return advance(rank);
}

TensorSteps::Pass TensorSteps::advance(uint32_t rank) {
  const auto place = replica_->advance(gradients_.next());
  if (!place) {
    place_ = {};
    gradients_.put(rank);
    return {true, {}, {rank, replica_->stats().loss_sum, rows_of(rank)}};
  }
  place_ = *place;
  auto lent = lent_floats(context_, place_.size());
  std::copy(place_.begin(), place_.end(), lent.get());
  const auto* first = lent.get();
  return {false, {std::move(lent), first, place_.size()}, {}};
}

/// Writes the sum of all members to where the own partial sum lies.
void TensorSteps::add_up(const std::vector<TensorView>& partials) {
  kernels::require(partials.size() == mesh_.tensor && !place_.empty(),
                   "partial sums that nobody waits for");
  std::vector<const float*> vectors;
  for (auto member : addends_) {
    const bool own = member == own_;
    kernels::require(own || partials[member].size() == place_.size(),
                     "a partial sum of another size");
    vectors.push_back(own ? place_.data() : partials[member].data());
  }
  auto* sum = place_.data();
  kernels::sum_loops().sum({vectors.data(), merges_.data(),
                            static_cast<uint32_t>(vectors.size())},
                           0, place_.size(), &sum, 1);
}

UpdateMoment TensorSteps::moment() const {
  return {step_ + store_->count_from(), step_, sampling_.step(step_).count};
}

UpdateArgs TensorSteps::arguments(const Slice& slice,
                                  const StepScalars& scalars) const {
  auto args = slice_update(job_, slice, moment(), scalars);
  args.gradient_sum = of_peers_.gradient(gradients_)
                      + replica_->layout().offsets[slice.variable]
                      + slice.offset;
  args.in = store_->values(slice.id, step_);
  args.state_in = store_->state(slice.id, step_);
  args.state_stride = slice.count;
  return args;
}

std::vector<double> TensorSteps::block_sums(ScalarRoundKind round,
                                            const StepScalars& scalars) {
  std::vector<std::vector<double>> of_slices(slices_.size());
  executor_.parallel_for(slices_.size(), [&](size_t i, uint32_t) {
    const auto& slice = job_.plan.slices[slices_[i]];
    if (shows(slice.id))
      of_slices[i] = slice_sums(job_, slice, round, arguments(slice, scalars));
  });
  std::vector<double> out;
  for (const auto& sums : of_slices)
    out.insert(out.end(), sums.begin(), sums.end());
  return out;
}

std::string TensorSteps::update(const StepScalars& scalars) {
  if (!all_finite(of_peers_.gradient(gradients_), replica_->layout().total))
    return "the gradient of step " + std::to_string(step_ + 1)
           + " is not finite: lower --lr or look at the data";
  executor_.parallel_for(slices_.size(), [&](size_t i, uint32_t) {
    const auto id = slices_[i];
    if (store_->newest(id) > step_)
      return; // before the step was broken off
    auto args = arguments(job_.plan.slices[id], scalars);
    const auto target = store_->begin(id);
    args.out = target.values;
    args.state_out = target.state;
    troupe::update(job_.options.rule, args);
    store_->commit(id);
  });
  load(step_ + 1);
  return {};
}

std::vector<SnapshotSlice> TensorSteps::snapshot(uint64_t version) const {
  std::vector<SnapshotSlice> out;
  const auto slots = state_slots(job_.options.rule.kind);
  for (auto id : slices_) {
    const auto count = job_.plan.slices[id].count;
    if (!shows(id) || version < store_->oldest(id)
        || store_->newest(id) < version)
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
