#include "actors/worker/norm_group.hpp"

#include "actors/replica/meeting.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

NormGroup::NormGroup(const RoleContext& context)
  : context_(context),
    job_(*context.job),
    buckets_(make_buckets(job_.worker_graph, job_.layout, 0)),
    room_(job_, 1),
    group_(*context.faults, pass_patience(job_.options)) {}

/// Each epoch has arrays of its own: a member that stopped in the middle of the
/// last one's may write to those later.
GroupWish NormGroup::begin_epoch(const Activate& activation) {
  start_ = start_of(activation, context_.role);
  const auto members = static_cast<uint32_t>(start_.members.size());
  room_ = {job_, members};
  arrays_ = std::make_shared<FlatArrays>(job_, std::max(room_.arrays, 1u),
                                         context_.own_process);
  GroupWish wish;
  wish.fence = activation.fence;
  wish.layout = {start_.rank, members, buckets_.runs, buckets_.hash};
  wish.members = computing_members(activation);
  wish.arrays = arrays_;
  return wish;
}

StepOutcome
NormGroup::compute(uint64_t step,
                   const std::function<StepGradient(RankPeers*)>& work) {
  std::vector<std::vector<RankRange>> nodes;
  for (const auto& member : start_.members)
    nodes.push_back({member.ranks});
  return compute_together(group_,
                          {ranks_with_samples(job_, step, nodes), start_.rank,
                           room_.values, arrays_->at(room_.first)},
                          work);
}

} // namespace troupe
