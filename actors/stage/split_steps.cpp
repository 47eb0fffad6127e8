#include "actors/stage/split_steps.hpp"

#include "actors/job/stage_mesh.hpp"
#include "actors/shard/snapshots.hpp"
#include "actors/stage/lent_floats.hpp"
#include "kernels/cpu/vector_loops.hpp"
#include "kernels/numbers/random.hpp"
#include "kernels/optimizer/optimizer.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe {

SplitSteps::Chunk::Chunk(const RoleContext& context, uint32_t number,
                         const Layout& flat)
  : layout(flat),
    parameters(std::max<size_t>(1, flat.total)),
    sums(std::max<size_t>(1, flat.total)),
    of_peers(context, number, flat.total) {
  parameters.fill(0);
}

SplitSteps::SplitSteps(const RoleContext& context, Executor& executor,
                       std::shared_ptr<ShardStore> store)
  : context_(context),
    job_(*context.job),
    executor_(executor),
    mesh_(mesh_of(job_.options)),
    store_(std::move(store)),
    slices_(job_.plan.role(context.role).slices),
    sampling_(job_.sampling) {}

void SplitSteps::add_chunk(const Layout& layout,
                           const std::vector<uint32_t>& kept) {
  const auto number = static_cast<uint32_t>(chunks_.size());
  chunks_.emplace_back(context_, number, layout);
  for (auto slice : kept)
    chunk_of_[slice] = number;
}

SliceState SplitSteps::state_of(uint32_t slice, uint64_t oldest,
                                uint64_t newest) const {
  return {slice, oldest, newest, {}, 0, {}, store_->lineage(slice)};
}

std::vector<SliceState> SplitSteps::held() const {
  std::vector<SliceState> out;
  if (!store_)
    return out;
  for (auto slice : slices_)
    if (store_->holds(slice))
      out.push_back(
        state_of(slice, store_->oldest(slice), store_->newest(slice)));
  return out;
}

void SplitSteps::reset(const std::shared_ptr<const Beginning>& beginning) {
  if (store_)
    store_->reset(slices_, beginning);
}

void SplitSteps::enter(uint64_t version, uint64_t epoch) {
  abandon();
  if (!store_)
    return;
  for (auto slice : slices_)
    store_->set_lineage(slice, epoch);
  load(version);
}

void SplitSteps::load(uint64_t version) {
  for (auto id : slices_) {
    const auto& slice = job_.plan.slices[id];
    auto& chunk = chunks_[chunk_of_.at(id)];
    std::copy_n(store_->values(id, version), slice.count,
                chunk.parameters.data() + chunk.place_of(slice));
  }
}

void SplitSteps::begin_step(uint64_t step) {
  step_ = step;
  std::vector<uint32_t> samples;
  for (uint32_t rank = 0; rank < job_.options.virtual_ranks; ++rank)
    samples.push_back(rows_of(rank));
  for (auto& chunk : chunks_)
    chunk.sums.begin(samples, own_ranks());
}

void SplitSteps::take(uint32_t slice, const TensorView& values) {
  auto& chunk = chunks_[chunk_of_.at(slice)];
  std::copy_n(values.data(), values.size(),
              chunk.parameters.data()
                + chunk.place_of(job_.plan.slices[slice]));
}

/// Copied, as the memory of the tree is used again while owners may read.
SplitSteps::ToPush SplitSteps::sums_to_push() const {
  ToPush out;
  const auto nodes = maximal_nodes(own_ranks(), job_.options.virtual_ranks);
  for (auto node : nodes)
    for (const auto& chunk : chunks_)
      if (has_samples(node)
          && !all_finite(chunk.sums.sum(node), chunk.layout.total)) {
        out.trouble = not_finite();
        return out;
      }
  for (auto id : slices_) {
    if (!shows(id))
      continue;
    const auto& slice = job_.plan.slices[id];
    for (auto node : nodes)
      out.sums.push_back({id, node, sum_of(slice, node)});
  }
  return out;
}

bool SplitSteps::has_samples(RankRange node) const {
  for (auto rank = node.lo; rank < node.hi; ++rank)
    if (rows_of(rank) > 0)
      return true;
  return false;
}

/// What a node's gradients sum up to; empty: it has no samples.
TensorView SplitSteps::sum_of(const Slice& slice, RankRange node) const {
  if (!has_samples(node))
    return {};
  const auto& chunk = chunks_[chunk_of_.at(slice.id)];
  auto memory = lent_floats(context_, slice.count);
  std::copy_n(chunk.sums.sum(node) + chunk.place_of(slice), slice.count,
              memory.get());
  const auto* first = memory.get();
  return {std::move(memory), first, slice.count};
}

std::string SplitSteps::not_finite() const {
  return "the gradient of step " + std::to_string(step_ + 1)
         + " is not finite: lower --lr or look at the data";
}

Batch SplitSteps::gather(uint32_t rank, BatchMemory* memory) {
  const auto rows = rows_of(rank);
  const auto key = kernels::batch_key(job_.options.seed, step_, rank);
  const auto sampled = sampling_.step(step_);
  Batch batch;
  if (memory != nullptr) {
    sampling_.indices(step_, rank, rows_);
    const SpanTimer wait{context_.flight.get(), Activity::data, step_ + 1, rank,
                         shortest_data_wait};
    context_.data.train->gather(rows_.data(), rows, *memory,
                                DataPass{job_.options.seed,
                                         sampled.data_epoch});
    batch = memory->batch(rows, key);
  }
  batch.rows = rows;
  batch.key = key;
  batch.step = {sampled.count, sampling_.filled(step_)};
  return batch;
}

std::vector<uint64_t> SplitSteps::gradient_elements() const {
  std::vector<uint64_t> out;
  for (const auto& chunk : chunks_)
    out.push_back(chunk.layout.total);
  return out;
}

std::vector<PeerSum::Given> SplitSteps::give(const MeshSum::Step& sum) const {
  std::vector<PeerSum::Given> out;
  for (const auto& chunk : chunks_)
    std::ranges::move(chunk.of_peers.give(sum, chunk.sums),
                      std::back_inserter(out));
  return out;
}

std::vector<TensorView> SplitSteps::add(const MeshSum::Step& sum,
                                        const StagePeers& peers,
                                        const PeerValues& nodes) {
  std::vector<TensorView> out;
  for (auto& chunk : chunks_)
    out.push_back(chunk.of_peers.add(sum, chunk.sums, peers, nodes));
  return out;
}

void SplitSteps::complete(const StagePeers& peers, const PeerValues& shares) {
  for (auto& chunk : chunks_)
    chunk.of_peers.complete(peers, shares);
}

UpdateArgs SplitSteps::arguments(const Slice& slice,
                                 const StepScalars& scalars) const {
  auto args = slice_update(job_, slice,
                           {step_ + store_->count_from(), step_,
                            job_.sampling.step(step_).count},
                           scalars);
  const auto& chunk = chunks_[chunk_of_.at(slice.id)];
  args.gradient_sum = chunk.gradient() + chunk.place_of(slice);
  args.in = store_->values(slice.id, step_);
  args.state_in = store_->state(slice.id, step_);
  args.state_stride = slice.count;
  return args;
}

std::vector<double> SplitSteps::block_sums(ScalarRoundKind round,
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

std::string SplitSteps::update(const StepScalars& scalars) {
  const auto is_finite = [](const Chunk& chunk) {
    return all_finite(chunk.gradient(), chunk.layout.total);
  };
  if (!std::ranges::all_of(chunks_, is_finite))
    return not_finite();
  executor_.parallel_for(slices_.size(), [&](size_t i, uint32_t) {
    const auto id = slices_[i];
    if (store_->newest(id) > step_)
      return;
    auto args = arguments(job_.plan.slices[id], scalars);
    const auto target = store_->begin(id);
    args.out = target.values;
    args.state_out = target.state;
    update_slice(job_, job_.plan.slices[id], 0, step_, args);
    store_->commit(id);
  });
  load(step_ + 1);
  return {};
}

std::vector<SnapshotSlice> SplitSteps::snapshot(uint64_t version) const {
  std::vector<SnapshotSlice> out;
  for (auto id : slices_)
    if (shows(id) && store_->oldest(id) <= version
        && version <= store_->newest(id))
      out.push_back(copy_of(job_, context_.job_id, *store_, id, version,
                            {version + store_->count_from(),
                             version * job_.options.virtual_ranks,
                             {}}));
  return out;
}

} // namespace troupe
