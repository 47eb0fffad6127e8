#include "actors/replica/host_home.hpp"

namespace troupe {

StepGradient HostHome::compute(uint64_t step, const NodeTargets& targets,
                               const VariableBanks& banks) {
  return computer_.compute(step, targets, banks.parameters(step));
}

std::string HostHome::update(UpdateMoment moment, float* sum,
                             const VariableBanks& banks) {
  update_.whole(banks, moment, sum);
  return {};
}

StepGradient HostHome::take_alone(UpdateMoment moment,
                                  const NodeTargets& targets,
                                  const VariableBanks& banks) {
  auto result = compute(moment.step, targets, banks);
  if (result.trouble.empty())
    update(moment, targets.sums.front(), banks);
  return result;
}

} // namespace troupe
