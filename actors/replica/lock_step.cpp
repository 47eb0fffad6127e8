#include "actors/replica/lock_step.hpp"

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

} // namespace troupe
