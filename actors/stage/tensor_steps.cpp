#include "actors/stage/tensor_steps.hpp"

#include "actors/compute/leaf_computer.hpp"
#include "actors/job/tensor_layers.hpp"
#include "actors/stage/lent_floats.hpp"
#include "kernels/base/require.hpp"
#include "kernels/collective/sum_loops.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

TensorSteps::TensorSteps(const RoleContext& context, Executor& executor,
                         std::shared_ptr<ShardStore> store)
  : SplitSteps(context, executor, std::move(store)),
    own_(mesh_.slice_of(context.role.index)),
    replica_(make_tensor_replica(
      tensor_part_of(job_.graph, job_.plan.share(context.role)),
      parse_device(job_.plan.role(context.role).device), job_.max_rows(),
      job_.precision())),
    samples_(job_.graph, job_.max_rows()) {
  add_chunk(replica_->layout(), slices_);
  for (const auto& addend :
       tensor_addends(mesh_.tensor, job_.options.cut.virtual_slices)) {
    addends_.push_back(addend.member);
    merges_.push_back(addend.merges);
  }
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
      out.push_back(state_of(slice, std::min(oldest, newest), newest));
  return out;
}

TensorSteps::Pass TensorSteps::begin(uint32_t rank) {
  place_ = {};
  if (rows_of(rank) == 0)
    return {};
  replica_->begin(whole().parameters.data(), gather(rank, &samples_));
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
  const auto place = replica_->advance(whole().sums.next());
  if (!place) {
    place_ = {};
    whole().sums.put(rank);
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

} // namespace troupe
