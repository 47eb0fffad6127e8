#pragma once

#include "actors/replica/bank_update.hpp"
#include "actors/replica/variable_home.hpp"

namespace troupe {

/// Variables in banks of the host.
class HostHome final : public VariableHome {
public:
  HostHome(LeafComputer& computer, const BankUpdate& update)
    : computer_(computer), update_(update) {}

  StepGradient compute(uint64_t step, const NodeTargets& targets,
                       const VariableBanks& banks) override;
  std::string update(UpdateMoment moment, float* sum,
                     const VariableBanks& banks) override;
  StepGradient take_alone(UpdateMoment moment, const NodeTargets& targets,
                          const VariableBanks& banks) override;

private:
  LeafComputer& computer_;
  const BankUpdate& update_;
};

} // namespace troupe
