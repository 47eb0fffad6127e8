#include "actors/shard/scalar_desk.hpp"

namespace troupe {

ScalarDesk::ScalarDesk(ShardContext& shard, SliceChains& chains)
  : shard_(shard), chains_(chains) {
  if (!rounds_of(shard.job.options).empty())
    decider_.emplace(shard.job, shard.store);
}

bool ScalarDesk::needed(const Job& job) {
  return !rounds_of(job.options).empty() || job.options.backup_workers > 0;
}

void ScalarDesk::leave_epoch() {
  waiting_.clear();
  askers_.clear();
  asked_.clear();
  held_.clear();
  newest_.clear();
  if (decider_)
    decider_->forget();
}

bool ScalarDesk::decides() const {
  const auto* line = chains_.find(0);
  return line != nullptr && line->place.head;
}

void ScalarDesk::ask(uint64_t step, uint32_t round, uint32_t slice,
                     const std::vector<double>& sums) {
  const auto& replicas = chains_.chains().front().replicas;
  if (replicas.empty())
    return;
  auto decider = decides() ? shard_actor{shard_.self}
                           : shard_.peers.at<shard_actor>(replicas.front());
  shard_.self->send(
    decider,
    BlockSums{
      shard_.gate.active(), step, round, slice, {sums.begin(), sums.end()}});
}

void ScalarDesk::take(const BlockSums& sums, const shard_actor& asker,
                      uint32_t samples) {
  if (!decider_ || !decides())
    return;
  askers_.insert(asker);
  const auto answer = decider_->offer(sums, samples);
  if (!answer)
    return;
  const Key key{sums.step, sums.round};
  if (chains_.find(0)->place.tail)
    held_.insert(key);
  if (asked_.insert(key).second || answer->decided_now)
    pass_on({shard_.gate.active(), sums.step, sums.round, answer->values});
  if (answer->decided_now)
    tell_if_held(key);
  else if (held_.contains(key))
    tell(asker, key);
}

/// Tells everybody who has asked in this epoch.
void ScalarDesk::tell_if_held(const Key& key) {
  if (!held_.contains(key))
    return;
  for (const auto& asker : askers_)
    tell(asker, key);
  const auto old = [&](const Key& x) { return x.first + 2 < key.first; };
  std::erase_if(held_, old);
  std::erase_if(asked_, old);
}

void ScalarDesk::take(const ChainScalars& scalars) {
  const auto* line = chains_.find(0);
  if (line == nullptr || line->place.head || is_late(scalars))
    return;
  if (!shard_.store->decide(scalars.step, scalars.round,
                            {scalars.values.begin(), scalars.values.end()}))
    return;
  pass_on(scalars);
  if (line->place.tail)
    chains_.send(chains_.chains().front().replicas.front(),
                 ScalarsHeld{shard_.gate.active(), scalars.step,
                             scalars.round});
}

/// A copy that comes after step + 2 would take that one's place in the store.
/// What the store had before this epoch does not count: it may be of steps that
/// have been rolled back since.
bool ScalarDesk::is_late(const ChainScalars& scalars) {
  auto& newest = newest_[{scalars.step % 2, scalars.round}];
  if (scalars.step < newest)
    return true;
  newest = scalars.step;
  return false;
}

void ScalarDesk::take(const ScalarsHeld& held) {
  const Key key{held.step, held.round};
  if (!decides() || !held_.insert(key).second)
    return;
  tell_if_held(key);
  if (auto waiting = waiting_.extract(key))
    waiting.mapped()();
}

void ScalarDesk::replicate(uint64_t step, uint32_t round,
                           const std::vector<float>& values,
                           std::function<void()> held) {
  pass_on({shard_.gate.active(), step, round, {values.begin(), values.end()}});
  if (chains_.find(0)->place.tail)
    held();
  else
    waiting_[{step, round}] = std::move(held);
}

void ScalarDesk::tell(const shard_actor& asker, const Key& key) {
  const auto values = shard_.store->decided(key.first, key.second);
  if (!values.empty())
    shard_.self->send(asker, Scalars{shard_.gate.active(),
                                     key.first,
                                     key.second,
                                     {values.begin(), values.end()}});
}

void ScalarDesk::pass_on(const ChainScalars& scalars) {
  for (auto follower : chains_.find(0)->place.followers)
    chains_.send(follower, scalars);
}

void ScalarDesk::joined(uint32_t follower) {
  for (const auto& decision : shard_.store->decisions())
    chains_.send(
      follower, ChainScalars{shard_.gate.active(),
                             decision.step,
                             decision.round,
                             {decision.values.begin(), decision.values.end()}});
}

} // namespace troupe
