#include "actors/shard/step_shares.hpp"

#include <algorithm>

namespace troupe {
namespace {

/// Later ones cannot be asked for: a push of step s proves that all before are
/// committed.
constexpr size_t remembered_steps = 4;
/// Shares in one number of the store, which holds it exactly.
constexpr size_t shares_per_float = 16;

std::vector<float> packed(const std::vector<RankRange>& included,
                          const std::vector<RankRange>& all) {
  std::vector<float> out((all.size() + shares_per_float - 1)
                         / shares_per_float);
  for (size_t i = 0; i < all.size(); ++i)
    if (std::ranges::find(included, all[i]) != included.end())
      out[i / shares_per_float] +=
        static_cast<float>(1u << (i % shares_per_float));
  return out;
}

std::vector<RankRange> unpacked(const std::vector<float>& values,
                                const std::vector<RankRange>& all) {
  std::vector<RankRange> out;
  for (size_t i = 0; i < all.size(); ++i)
    if (i / shares_per_float < values.size()
        && (static_cast<uint32_t>(values[i / shares_per_float])
            >> (i % shares_per_float))
             % 2)
      out.push_back(all[i]);
  return out;
}

/// Returns false where it was there.
bool remember(std::map<uint64_t, std::vector<RankRange>>& steps,
              const StepShares& decision) {
  const bool fresh = steps.emplace(decision.step, decision.shares).second;
  while (steps.size() > remembered_steps)
    steps.erase(steps.begin());
  return fresh;
}

} // namespace

StepSharesDesk::StepSharesDesk(ShardContext& shard, Replicate replicate)
  : shard_(shard),
    all_(shard.job.shares()),
    replicate_(std::move(replicate)),
    quorum_(all_, shard.job.options.backup_workers) {}

void StepSharesDesk::leave_epoch() {
  kept_.clear();
  askers_.clear();
  told_.clear();
  decides_ = false;
  quorum_.forget();
}

void StepSharesDesk::restore() {
  decided_.clear();
  quorum_ = StepQuorum{all_, shard_.job.options.backup_workers};
}

void StepSharesDesk::enter_epoch(bool decides, uint32_t decider,
                                 uint64_t version) {
  decides_ = decides;
  if (!decides) {
    shard_.self->send(shard_.peers.at<shard_actor>(decider),
                      AskShares{shard_.gate.active()});
    return;
  }
  for (auto step = version > 0 ? version - 1 : 0; step <= version; ++step)
    if (const auto shares = recorded(step); !shares.empty())
      tell_once_held(step, shares);
}

bool StepSharesDesk::admit(const Push& push, uint64_t version) {
  if (const auto* shares = shares_of(push.step)) {
    const bool in = std::ranges::any_of(*shares, [&](RankRange share) {
      return share.covers(push.node);
    });
    if (!in)
      shard_.metrics.late.add();
    return in;
  }
  if (push.step < version) {
    shard_.metrics.late.add();
    return false;
  }
  kept_.push_back(push);
  if (decides_ && push.slice == 0 && recorded(push.step).empty()) {
    const auto shares = quorum_.offer(push.step, push.node);
    if (!shares.empty())
      decide(push.step, shares);
  }
  return false;
}

void StepSharesDesk::decide(uint64_t step,
                            const std::vector<RankRange>& shares) {
  shard_.store->decide(step, ShardStore::shares_round, packed(shares, all_));
  tell_once_held(step, shares);
}

void StepSharesDesk::tell_once_held(uint64_t step,
                                    const std::vector<RankRange>& shares) {
  const StepShares decision{shard_.gate.active(), step, shares};
  replicate_(step, packed(shares, all_),
             [this, decision] { tell_all(decision); });
}

std::vector<RankRange> StepSharesDesk::recorded(uint64_t step) const {
  return unpacked(shard_.store->decided(step, ShardStore::shares_round), all_);
}

void StepSharesDesk::tell_all(const StepShares& decision) {
  remember(told_, decision);
  shard_.self->send(shard_.context.coordinator, decision);
  shard_.self->send(shard_actor{shard_.self}, decision);
  for (const auto& shard : askers_)
    shard_.self->send(shard, decision);
}

void StepSharesDesk::take(const AskShares& ask, const shard_actor& asker) {
  if (!decides_)
    return;
  askers_.insert(asker);
  for (const auto& [step, shares] : told_)
    shard_.self->send(asker, StepShares{ask.fence, step, shares});
}

bool StepSharesDesk::take(const StepShares& decision) {
  return remember(decided_, decision);
}

std::vector<Push> StepSharesDesk::release(uint64_t step) {
  std::vector<Push> out;
  for (auto& push : std::exchange(kept_, {}))
    if (push.step != step)
      kept_.push_back(std::move(push));
    else if (admit(push, step))
      out.push_back(std::move(push));
  return out;
}

const std::vector<RankRange>* StepSharesDesk::shares_of(uint64_t step) const {
  auto found = decided_.find(step);
  return found == decided_.end() ? nullptr : &found->second;
}

std::vector<RankRange> StepSharesDesk::left_out_of(uint64_t step) const {
  const auto* shares = shares_of(step);
  return shares == nullptr
           ? std::vector<RankRange>{}
           : left_out(*shares, all_, shard_.job.options.virtual_ranks);
}

uint32_t StepSharesDesk::samples_of(uint64_t step) const {
  uint32_t samples = 0;
  if (const auto* shares = shares_of(step))
    for (auto share : *shares)
      for (auto rank = share.lo; rank < share.hi; ++rank)
        samples += shard_.job.sampling.rank(step, rank).count;
  return samples;
}

} // namespace troupe
