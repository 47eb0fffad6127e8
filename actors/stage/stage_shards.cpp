#include "actors/stage/stage_shards.hpp"

#include "actors/job/chain_routes.hpp"
#include "actors/role/link_terms.hpp"
#include "monitoring/names.hpp"

#include <algorithm>

namespace troupe {

StageShards::StageShards(stage_actor::pointer self, const RoleContext& context,
                         std::vector<uint32_t> slices)
  : self_(self),
    context_(context),
    slices_(std::move(slices)),
    shards_(self->system(), {context.links, context.role, stage_shard_terms()}),
    there_(context.job->plan.slices.size()),
    pushed_(context.metrics->counter(metrics::pushed_bytes_total)),
    pulled_(context.metrics->counter(metrics::pulled_bytes_total)) {}

/// Those that head or end a chain of a slice which the stage pulls.
std::vector<Member> StageShards::needed(const Activate& activation) const {
  const auto chains = chains_of(activation, context_.job->plan);
  const auto heads = heads_of(chains);
  const auto tails = tails_of(chains);
  std::set<uint32_t> shards;
  for (auto slice : slices_)
    shards.insert({heads[slice], tails[slice]});
  auto members = activation.members;
  std::erase_if(members, [&](const Member& x) {
    return x.role.kind != RoleKind::shard || !shards.contains(x.role.index);
  });
  return members;
}

void StageShards::begin_epoch(const Activate& activation) {
  const auto chains = chains_of(activation, context_.job->plan);
  heads_ = heads_of(chains);
  tails_ = tails_of(chains);
  there_.begin_epoch(activation.slices);
  missing_.clear();
}

void StageShards::pull(const Fence& fence, uint64_t version) {
  version_ = version;
  missing_ = {slices_.begin(), slices_.end()};
  for (auto slice : slices_)
    self_->send(shards_.at<shard_actor>(tails_[slice]),
                Pull{fence, context_.role, version, slice});
}

bool StageShards::awaits(const Pulled& message) const {
  return message.version == version_ && missing_.contains(message.slice);
}

bool StageShards::take(const Pulled& message) {
  if (message.values.size() != context_.job->plan.slices[message.slice].count)
    return false;
  missing_.erase(message.slice);
  pulled_.add(static_cast<double>(message.values.bytes()));
  context_.faults->pass(StepPhase::pull);
  return true;
}

void StageShards::push(const Fence& fence, uint64_t step,
                       const std::vector<SliceSum>& sums) {
  for (const auto& sum : sums) {
    if (there_.has(sum.slice, step, sum.node))
      continue;
    there_.sent(sum.slice, step, sum.node);
    pushed_.add(static_cast<double>(sum.values.bytes()));
    self_->send(shards_.at<shard_actor>(heads_[sum.slice]),
                Push{fence, step, sum.node, sum.slice, sum.values});
    context_.faults->pass(StepPhase::push);
  }
}

} // namespace troupe
