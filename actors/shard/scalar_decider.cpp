#include "actors/shard/scalar_decider.hpp"

namespace troupe {

ScalarDecider::ScalarDecider(const Job& job, std::shared_ptr<ShardStore> store)
  : job_(job),
    store_(std::move(store)),
    rounds_(rounds_of(job.options)),
    round_(static_cast<uint32_t>(job.plan.slices.size())) {}

std::optional<ScalarDecider::Answer> ScalarDecider::offer(const BlockSums& sums,
                                                          uint32_t samples) {
  if (sums.round >= rounds_.size() || sums.slice >= job_.plan.slices.size())
    return std::nullopt;
  const auto answer = [](const std::vector<float>& values, bool decided_now) {
    return Answer{{values.begin(), values.end()}, decided_now};
  };
  auto known = store_->decided(sums.step, sums.round);
  if (!known.empty())
    return answer(known, false);
  const auto& slice = job_.plan.slices[sums.slice];
  if (sums.sums.size() != sums_of(job_, slice, rounds_[sums.round]))
    return std::nullopt;
  const auto decision = round_.offer({sums.step, sums.round}, sums.slice);
  if (decision.verdict != ScalarRound::Verdict::accept)
    return std::nullopt;
  if (decision.begins)
    sums_.emplace(job_, rounds_[sums.round]);
  sums_->put(slice, {sums.sums.begin(), sums.sums.end()});
  if (!decision.complete)
    return std::nullopt;
  const auto scalars = sums_->scalars(samples);
  store_->decide(sums.step, sums.round, scalars);
  return answer(scalars, true);
}

} // namespace troupe
