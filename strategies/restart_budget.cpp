#include "strategies/restart_budget.hpp"

#include <algorithm>

namespace troupe {
namespace {

/// 100 -> "0.1 s"
std::string in_seconds(uint64_t ms) {
  return std::to_string(ms / 1000) + '.' + std::to_string(ms % 1000 / 100)
         + " s";
}

} // namespace

RestartBudget::RestartBudget(uint32_t budget) : budget_(budget) {
  // nop
}

RestartBudget::Verdict RestartBudget::died(RoleId role,
                                           const std::string& how) {
  return died(role, how, Life{});
}

RestartBudget::Verdict RestartBudget::died(RoleId role, const std::string& how,
                                           const Life& life, uint64_t now_ms) {
  const bool patient = is_patient(life, now_ms);
  const bool spends = !life.beside && !patient;
  auto what = to_string(role) + " died";
  if (!how.empty())
    what += " (" + how + ')';
  auto budget = std::to_string(budget_);
  if (spent_ >= budget_ && (spends || budget_ == 0)) {
    if (budget_ == 0)
      return {false, 0, what + ": restarts are off"};
    return {false, 0,
            what + ": all " + budget
              + " restarts were spent without a committed step; look at the"
                " role's last output"};
  }
  auto& past = past_[role];
  const bool soon = life.ms < short_again_ms;
  if (life.memory && past.memory && soon)
    return {false, budget_ - spent_,
            what
              + ", twice: it does not fit; give it more memory, or a smaller"
                " model or batch"};
  if (life.input && past.input && soon)
    return {false, budget_ - spent_,
            what + ", twice: it would read the same again"};
  past.memory = life.memory;
  past.input = life.input;
  const auto delay_ms = delay_after(past, life);
  spent_ += spends ? 1 : 0;
  return {true, budget_ - spent_,
          what + ": "
            + (patient ? "started again"
                       : "restart " + std::to_string(spent_) + " of " + budget)
            + (delay_ms > 0 ? " in " + in_seconds(delay_ms) : ""),
          delay_ms};
}

bool RestartBudget::is_patient(const Life& life, uint64_t now_ms) {
  if (!life.away)
    return false;
  if (!away_since_ms_)
    away_since_ms_ = now_ms;
  return now_ms - *away_since_ms_ < away_patience_ms;
}

uint64_t RestartBudget::delay_after(Past& past, const Life& life) const {
  if (!life.by_itself || life.ms >= short_life_ms) {
    past.next_delay_ms = 0;
    return 0;
  }
  const auto delay = std::max(past.next_delay_ms, first_delay_ms);
  past.next_delay_ms = std::min(4 * delay,
                                life.away ? max_away_delay_ms : max_delay_ms);
  return delay;
}

void RestartBudget::committed(uint64_t step) {
  if (step < committed_steps_)
    return;
  committed_steps_ = step + 1;
  spent_ = 0;
  away_since_ms_.reset();
}

} // namespace troupe
