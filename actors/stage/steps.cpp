#include "actors/stage/steps.hpp"

#include "actors/compute/leaf_computer.hpp"
#include "actors/stage/lent_floats.hpp"
#include "kernels/base/require.hpp"
#include "kernels/collective/sum_loops.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

StageSteps::StageSteps(const RoleContext& context, Executor& executor,
                       std::shared_ptr<ShardStore> store)
  : SplitSteps(context, executor, std::move(store)), role_(job_, context.role) {
  for (uint32_t chunk = 0; chunk < role_.chunks().size(); ++chunk)
    add_part(chunk);
  for (const auto& addend :
       tensor_addends(mesh_.tensor, job_.options.cut.virtual_slices)) {
    addends_.push_back(addend.member);
    merges_.push_back(addend.merges);
  }
}

void StageSteps::add_part(uint32_t chunk) {
  auto& part = parts_.emplace_back();
  const auto options = role_.options(chunk);
  part.replica = make_stage_replica(
    role_.graph(), role_.chunks()[chunk].part,
    parse_device(job_.plan.role(context_.role).device), options);
  part.reads_samples = reads_samples(part.replica->part());
  for (uint32_t i = 0; i < options.in_flight; ++i)
    part.batches.emplace_back(job_.graph,
                              part.reads_samples ? job_.max_rows() : 0);
  add_chunk(part.replica->layout(), role_.kept(chunk));
}

bool StageSteps::reads_samples(const GraphPart& part) const {
  const auto& graph = role_.graph();
  for (auto op = part.ops.begin; op < part.ops.end; ++op)
    for (auto input : graph.ops[op].inputs)
      if (graph.features_value == input || graph.ids_value == input)
        return true;
  return part.ops.end == graph.ops.size();
}

void StageSteps::abandon() {
  now_ = {};
  for (auto& part : parts_)
    part.replica->abandon();
}

/// An update that was cut short leaves some slices at the version before: what
/// all members go on from is at most what this one has of all of them.
std::vector<SliceState> StageSteps::held() const {
  if (!role_.is_sliced())
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

StageSteps::Pass StageSteps::pass(const StageAction& action, uint32_t rank,
                                  const TensorView& in) {
  now_ = {action, rank, in, {}, 0, false, {}};
  const auto sums = sums_of(action.pass, action.chunk, rows_of(rank));
  now_.sums_nothing = sums.size() == 1 && sums.front() == 0;
  if (rows_of(rank) > 0) {
    auto& part = parts_[action.chunk];
    if (action.pass == StagePass::forward)
      forward(part);
    else
      backward(part);
  }
  return outcome();
}

StageSteps::Pass StageSteps::go_on(const std::vector<TensorView>& partials) {
  auto& replica = *parts_[now_.action.chunk].replica;
  if (const auto place = replica.awaited(); !place.empty()) {
    add_up(partials, place);
    now_.stats = replica.go_on();
  }
  return outcome();
}

void StageSteps::forward(Part& part) {
  const auto slot = part.slot_of(now_.action.micro_batch);
  const auto batch = gather(now_.rank,
                            part.reads_samples ? &part.batches[slot] : nullptr);
  lend_out(forward_elements(job_.graph, part.replica->part().out, batch.rows));
  now_.stats =
    part.replica->forward(slot, chunks_[now_.action.chunk].parameters.data(),
                          batch, now_.in.data(), now_.out.get());
}

void StageSteps::backward(Part& part) {
  auto& replica = *part.replica;
  auto& sums = chunks_[now_.action.chunk].sums;
  const auto rank = now_.rank;
  const auto slot = part.slot_of(now_.action.micro_batch);
  if (now_.action.pass == StagePass::backward_weights) {
    replica.backward_weights(slot, sums.next());
    return;
  }
  lend_out(backward_elements(job_.graph, replica.part().in, rows_of(rank)));
  if (now_.action.pass == StagePass::backward_inputs)
    replica.backward_inputs(slot, now_.in.data(), now_.out.get());
  else
    replica.backward(slot, now_.in.data(), sums.next(), now_.out.get());
}

void StageSteps::lend_out(uint64_t elements) {
  now_.out = lent_floats(context_, elements);
  now_.elements = elements;
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

/// What the pass in hand gives: a partial sum or, once it is done, the rest.
StageSteps::Pass StageSteps::outcome() {
  const auto place = parts_[now_.action.chunk].replica->awaited();
  if (!place.empty()) {
    auto lent = lent_floats(context_, place.size());
    std::ranges::copy(place, lent.get());
    const auto* first = lent.get();
    return {true, {std::move(lent), first, place.size()}, {}};
  }
  if (std::exchange(now_.sums_nothing, false))
    return {true, {}, {}};
  const auto rank = now_.rank;
  const auto rows = rows_of(rank);
  const auto pass = now_.action.pass;
  if (rows > 0
      && (pass == StagePass::backward || pass == StagePass::backward_weights))
    chunks_[now_.action.chunk].sums.put(rank);
  const auto* first = now_.out.get();
  Pass out{false, {}, {rank, now_.stats.loss_sum, rows}};
  if (first != nullptr)
    out.values = {std::exchange(now_.out, {}), first, now_.elements};
  now_.in = {};
  return out;
}

} // namespace troupe
