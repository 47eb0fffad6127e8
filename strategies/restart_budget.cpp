#include "strategies/restart_budget.hpp"

namespace troupe {

RestartBudget::RestartBudget(uint32_t budget) : budget_(budget) {
  // nop
}

RestartBudget::Verdict RestartBudget::died(RoleId role,
                                           const std::string& how) {
  auto what = to_string(role) + " died";
  if (!how.empty())
    what += " (" + how + ')';
  auto budget = std::to_string(budget_);
  if (spent_ >= budget_) {
    if (budget_ == 0)
      return {false, 0, what + ": restarts are off"};
    return {false, 0,
            what + ": all " + budget
              + " restarts were spent without a committed step; look at the"
                " role's last output"};
  }
  ++spent_;
  ++restarts_;
  return {true, budget_ - spent_,
          what + ": restart " + std::to_string(spent_) + " of " + budget};
}

void RestartBudget::committed(uint64_t step) {
  if (step < committed_steps_)
    return;
  committed_steps_ = step + 1;
  spent_ = 0;
}

} // namespace troupe
