#include "actors/sockets/door_budget.hpp"

#include <algorithm>
#include <ctime>
#include <functional>

namespace troupe {

void DoorBudget::earn(Debt& debt, Clock::time_point now, int parts) {
  const auto earned = (now - debt.since) / parts;
  if (earned <= Cost::zero())
    return;
  debt.cost = std::max(debt.cost - earned, Cost::zero());
  debt.since = now;
}

DoorBudget::Debt& DoorBudget::all(Clock::time_point now) {
  earn(all_, now, parts_);
  return all_;
}

DoorBudget::Debt& DoorBudget::of(const std::string& network,
                                 Clock::time_point now) {
  const auto hash = std::hash<std::string>{}(network + std::to_string(salt_));
  auto& debt = networks_[hash % networks_.size()];
  earn(debt, now, 2 * parts_);
  return debt;
}

bool DoorBudget::hears(const std::string& network, Clock::time_point now) {
  return all(now).cost < burst && of(network, now).cost < burst / 2;
}

void DoorBudget::turn_away(Cost cost, Clock::time_point now) {
  all(now).cost += cost + beside;
}

void DoorBudget::wait(const std::string& network, Cost cost,
                      Clock::time_point now) {
  all(now).cost += cost;
  of(network, now).cost += cost;
}

void DoorBudget::spend(const std::string& network, Cost cost,
                       Clock::time_point now) {
  wait(network, cost + beside, now);
}

void DoorBudget::refund(const std::string& network, Cost cost,
                        Clock::time_point now) {
  for (auto* debt : {&all(now), &of(network, now)})
    debt->cost = std::max(debt->cost - vouched * cost, Cost::zero());
}

std::optional<DoorBudget::Clock::time_point>
DoorBudget::rests_until(Clock::time_point now) {
  const auto debt = all(now).cost;
  if (debt < burst)
    return std::nullopt;
  return now + (debt - burst + least) * parts_;
}

DoorBudget::Cost ThreadTime::now() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec}
         + std::chrono::nanoseconds{time.tv_nsec};
}

} // namespace troupe
