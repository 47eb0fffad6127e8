#include "actors/replica/lock_step.hpp"

#include <chrono>

namespace troupe {

GroupStatistics::Calls calls_in(EpochGroup& group, StepOutcome& outcome) {
  GroupStatistics::Calls calls;
  calls.broadcast = [&](float* data, size_t count, uint32_t root) {
    return group.broadcast(data, count, root, outcome);
  };
  calls.end = [&](const std::string& reason) {
    group.abort(reason);
    outcome.trouble = reason;
  };
  return calls;
}

StepOutcome
compute_together(EpochGroup& group, const LockStep& step,
                 const std::function<StepGradient(RankPeers* peers)>& work) {
  StepOutcome outcome;
  if (step.values == 0) {
    outcome.gradient = work(nullptr);
    return outcome;
  }
  if (!group.can_begin(outcome)) {
    outcome.gradient.abandoned = true;
    return outcome;
  }
  GroupStatistics peers{step.filled, step.rank, step.values, step.room,
                        calls_in(group, outcome)};
  outcome.gradient = work(&peers);
  outcome.gradient.seconds -= outcome.wait_seconds;
  return outcome;
}

void record_waits(const RoleContext& context, const StepOutcome& outcome) {
  if (!context.flight || outcome.wait_seconds <= 0)
    return;
  const auto ago = [](double seconds) {
    return std::chrono::duration_cast<SteadyClock::duration>(
      std::chrono::duration<double>{seconds});
  };
  const auto& pass = outcome.gradient;
  const auto end = SteadyClock::now() - ago(pass.seconds + pass.slowed_seconds);
  context.flight->record(Activity::reduce, end - ago(outcome.wait_seconds), end,
                         pass.step + 1);
}

} // namespace troupe
