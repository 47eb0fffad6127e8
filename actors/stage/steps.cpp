#include "actors/stage/steps.hpp"

#include "actors/compute/leaf_computer.hpp"
#include "actors/stage/lent_floats.hpp"
#include "kernels/base/require.hpp"
#include "kernels/collective/sum_loops.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe {
namespace {

constexpr uint64_t elements_of_double = sizeof(double) / sizeof(float);

} // namespace

StageSteps::StageSteps(const RoleContext& context, Executor& executor,
                       std::shared_ptr<ShardStore> store)
  : SplitSteps(context, executor, std::move(store)),
    role_(job_, context.role),
    shares_(job_.options.virtual_ranks) {
  add_parts();
  for (const auto& addend :
       tensor_addends(mesh_.tensor, job_.options.cut.virtual_slices)) {
    addends_.push_back(addend.member);
    merges_.push_back(addend.merges);
  }
}

void StageSteps::add_parts() {
  std::vector<GraphPart> parts;
  std::vector<StageOptions> options;
  for (uint32_t chunk = 0; chunk < role_.chunks().size(); ++chunk) {
    parts.push_back(role_.chunks()[chunk].part);
    options.push_back(role_.options(chunk));
  }
  auto replicas = make_stage_replicas(
    role_.graph(), parts, parse_device(job_.plan.role(context_.role).device),
    options);
  for (uint32_t chunk = 0; chunk < parts.size(); ++chunk)
    add_part(chunk, std::move(replicas[chunk]), options[chunk].in_flight);
}

void StageSteps::add_part(uint32_t chunk, std::unique_ptr<StageReplica> replica,
                          uint32_t in_flight) {
  auto& part = parts_.emplace_back();
  part.replica = std::move(replica);
  part.reads_samples = reads_samples(role_.graph(), part.replica->part());
  for (uint32_t i = 0; i < in_flight; ++i)
    part.batches.emplace_back(job_.graph,
                              part.reads_samples ? job_.max_rows() : 0);
  part.passes.resize(in_flight);
  if (job_.goes_in_lock_step()
      && !rank_sums(role_.graph(), part.replica->part(), true).empty())
    for (auto& pass : part.passes)
      pass.parked = std::make_unique<ParkedPass>();
  add_chunk(part.replica->layout(), role_.kept(chunk));
}

void StageSteps::abandon() {
  for (auto& part : parts_) {
    for (auto& pass : part.passes) {
      if (pass.parked)
        pass.parked->abandon();
      pass.in = {};
      pass.out.reset();
    }
    part.replica->abandon();
  }
  shares_.clear();
}

/// An update that was cut short leaves some slices at the version before: what
/// all members go on from is at most what this one has of all of them.
std::vector<SliceState> StageSteps::held() const {
  if (!role_.is_sliced() || !store_)
    return SplitSteps::held();
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
      out.push_back(state_of(slice, std::min(oldest, newest), newest));
  return out;
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

std::vector<uint64_t> StageSteps::sums_of(StagePass pass, uint32_t chunk,
                                          uint32_t rows) const {
  std::vector<uint64_t> out;
  if (mesh_.tensor == 1 || pass == StagePass::backward_weights)
    return out;
  const auto& replica = *parts_[chunk].replica;
  const bool forward = pass == StagePass::forward;
  if (rows > 0)
    for (const auto& sum :
         forward ? replica.forward_sums() : replica.backward_sums())
      out.push_back(job_.graph.values[sum.value].size() * rows);
  if (out.empty() && forward)
    out.push_back(0);
  return out;
}

std::vector<uint64_t> StageSteps::statistics_of(StagePass pass) const {
  if (!job_.goes_in_lock_step())
    return {};
  auto forward = rank_sums(role_.graph(), part(0), true);
  if (pass == StagePass::forward)
    return forward;
  auto out = role_.options(0).recompute ? forward : std::vector<uint64_t>{};
  const auto back = rank_sums(role_.graph(), part(0), false);
  out.insert(out.end(), back.begin(), back.end());
  return out;
}

uint64_t StageSteps::statistics_elements(uint64_t step, uint32_t pipeline,
                                         uint64_t doubles) const {
  uint64_t ranks = 0;
  const auto all = mesh_.ranks(pipeline, job_.options.virtual_ranks);
  for (auto rank = all.lo; rank < all.hi; ++rank)
    ranks += job_.sampling.rank(step, rank).count > 0 ? 1 : 0;
  return elements_of_double * ranks * doubles;
}

StageSteps::UnderWay& StageSteps::under_way(const StageAction& action) {
  auto& part = parts_[action.chunk];
  return part.passes[part.slot_of(action.micro_batch)];
}

StageSteps::Pass StageSteps::pass(const StageAction& action, uint32_t rank,
                                  const TensorView& in) {
  now_ = action;
  auto& part = parts_[action.chunk];
  auto& pass = under_way(action);
  const auto sums = sums_of(action.pass, action.chunk, rows_of(rank));
  pass.action = action;
  pass.rank = rank;
  pass.in = in;
  pass.out.reset();
  pass.elements = 0;
  pass.sums_nothing = sums.size() == 1 && sums.front() == 0;
  pass.stats = {};
  const auto compute = [this, &part, &pass] {
    if (pass.action.pass == StagePass::forward)
      forward(part, pass);
    else
      backward(part, pass);
  };
  if (rows_of(rank) > 0 && pass.parked)
    pass.parked->begin(compute);
  else if (rows_of(rank) > 0)
    compute();
  return outcome(pass);
}

StageSteps::Pass StageSteps::go_on(const std::vector<TensorView>& partials) {
  auto& replica = *parts_[now_.chunk].replica;
  auto& pass = under_way(now_);
  if (const auto place = replica.awaited(); !place.empty()) {
    add_up(partials, place);
    pass.stats = replica.go_on();
  }
  return outcome(pass);
}

StageSteps::Pass StageSteps::go_on(const StageAction& action,
                                   const std::vector<TensorView>& theirs) {
  if (action.micro_batch == 0)
    take_statistics(theirs);
  auto& pass = under_way(action);
  pass.parked->go_on(sum_);
  return outcome(pass);
}

/// All shares of the sum that passes wait for are here with these.
void StageSteps::take_statistics(const std::vector<TensorView>& theirs) {
  const auto doubles = shares_.all().begin()->second.values.size();
  for (uint32_t pipeline = 0; pipeline < theirs.size(); ++pipeline) {
    const auto& values = theirs[pipeline];
    if (values.size() == 0)
      continue;
    kernels::require(values.size()
                       == statistics_elements(step_, pipeline, doubles),
                     "statistics of another operator");
    const auto* at = values.data();
    const auto all = mesh_.ranks(pipeline, job_.options.virtual_ranks);
    for (auto rank = all.lo; rank < all.hi; ++rank) {
      if (rows_of(rank) == 0)
        continue;
      RankShare share{std::vector<double>(doubles), rows_of(rank)};
      std::memcpy(share.values.data(), at, doubles * sizeof(double));
      at += elements_of_double * doubles;
      shares_.put(rank, std::move(share));
    }
  }
  sum_ = shares_.take_sum();
}

void StageSteps::forward(Part& part, UnderWay& pass) {
  const auto slot = part.slot_of(pass.action.micro_batch);
  auto batch = gather(pass.rank,
                      part.reads_samples ? &part.batches[slot] : nullptr);
  batch.exchange = pass.parked.get();
  lend_out(pass,
           forward_elements(job_.graph, part.replica->part().out, batch.rows));
  pass.stats =
    part.replica->forward(slot, chunks_[pass.action.chunk].parameters.data(),
                          batch, pass.in.data(), pass.out.get());
}

void StageSteps::backward(Part& part, UnderWay& pass) {
  auto& replica = *part.replica;
  auto& sums = chunks_[pass.action.chunk].sums;
  const auto rank = pass.rank;
  const auto slot = part.slot_of(pass.action.micro_batch);
  if (pass.action.pass == StagePass::backward_weights) {
    replica.backward_weights(slot, sums.next(rank));
    return;
  }
  lend_out(pass,
           backward_elements(job_.graph, replica.part().in, rows_of(rank)));
  if (pass.action.pass == StagePass::backward_inputs)
    replica.backward_inputs(slot, pass.in.data(), pass.out.get());
  else
    replica.backward(slot, pass.in.data(), sums.next(rank), pass.out.get());
}

void StageSteps::lend_out(UnderWay& pass, uint64_t elements) {
  pass.out = lent_floats(context_, elements);
  pass.elements = elements;
}

/// Writes the sum of all members to where the own partial sum lies.
void StageSteps::add_up(const std::vector<TensorView>& partials,
                        std::span<float> place) {
  const auto own = mesh_.slice_of(context_.role.index);
  kernels::require(partials.size() == mesh_.tensor,
                   "partial sums of another stage");
  std::vector<const float*> vectors;
  for (auto member : addends_) {
    kernels::require(member == own || partials[member].size() == place.size(),
                     "a partial sum of another size");
    vectors.push_back(member == own ? place.data() : partials[member].data());
  }
  auto* sum = place.data();
  kernels::sum_loops().sum({vectors.data(), merges_.data(),
                            static_cast<uint32_t>(vectors.size())},
                           0, place.size(), &sum, 1);
}

/// What a pass gives: a partial sum or, once it is done, the rest.
StageSteps::Pass StageSteps::outcome(UnderWay& pass) {
  if (pass.parked && pass.parked->waits())
    return stopped(pass);
  const auto place = parts_[pass.action.chunk].replica->awaited();
  if (!place.empty()) {
    auto lent = lent_floats(context_, place.size());
    std::ranges::copy(place, lent.get());
    const auto* first = lent.get();
    return {true, {std::move(lent), first, place.size()}, {}};
  }
  if (std::exchange(pass.sums_nothing, false))
    return {true, {}, {}};
  const auto rank = pass.rank;
  const auto rows = rows_of(rank);
  const auto kind = pass.action.pass;
  if (rows > 0
      && (kind == StagePass::backward || kind == StagePass::backward_weights))
    chunks_[pass.action.chunk].sums.put(rank);
  const auto* first = pass.out.get();
  Pass out{false, {}, {rank, pass.stats.loss_sum, rows}};
  if (first != nullptr)
    out.values = {std::exchange(pass.out, {}), first, pass.elements};
  pass.in = {};
  return out;
}

/// Before a sum over all virtual ranks, of which its peers are given what this
/// stage has once all of its micro-batches have come there.
StageSteps::Pass StageSteps::stopped(const UnderWay& pass) {
  shares_.put(pass.rank, pass.parked->share());
  const auto doubles = pass.parked->share().values.size();
  const auto own = mesh_.pipeline_of(context_.role.index);
  const auto count = statistics_elements(step_, own, doubles);
  if (mesh_.data == 1 || elements_of_double * shares_.size() * doubles < count)
    return {true, {}, {}};
  auto lent = lent_floats(context_, count);
  auto* to = lent.get();
  for (const auto& [rank, share] : shares_.all()) {
    std::memcpy(to, share.values.data(), doubles * sizeof(double));
    to += elements_of_double * doubles;
  }
  const auto* first = lent.get();
  return {true, {std::move(lent), first, count}, {}};
}

} // namespace troupe
