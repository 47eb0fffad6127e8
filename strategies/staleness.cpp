#include "strategies/staleness.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {

float damped_rate(StalenessDamping damping, uint64_t staleness) {
  const auto age = 1.0 + static_cast<double>(staleness);
  switch (damping) {
    case StalenessDamping::none:
      return 1;
    case StalenessDamping::inverse_sqrt:
      return static_cast<float>(1 / std::sqrt(age));
    case StalenessDamping::inverse:
      return static_cast<float>(1 / age);
  }
  return 1;
}

void StalenessClocks::members(const std::set<uint32_t>& workers) {
  std::erase_if(clocks_, [&](const auto& entry) {
    return !workers.contains(entry.first);
  });
  const auto start = slowest();
  for (auto worker : workers)
    clocks_.try_emplace(worker, Clock{start, 0});
}

void StalenessClocks::leave(uint32_t worker) {
  clocks_.erase(worker);
}

bool StalenessClocks::may_begin(uint32_t worker) const {
  auto found = clocks_.find(worker);
  return found != clocks_.end() && (!bound_ || lead(found->second) <= *bound_);
}

void StalenessClocks::begin(uint32_t worker) {
  strategies::require(may_begin(worker),
                      "a worker went on beyond the staleness bound");
  auto& clock = clocks_.at(worker);
  max_lead_ = std::max(max_lead_, lead(clock));
  ++clock.held;
}

void StalenessClocks::consumed(uint32_t worker) {
  auto found = clocks_.find(worker);
  if (found == clocks_.end())
    return;
  auto& clock = found->second;
  strategies::require(clock.held > 0, "a consumed lease that nobody held");
  --clock.held;
  ++clock.consumed;
}

void StalenessClocks::taken_back(uint32_t worker) {
  auto found = clocks_.find(worker);
  if (found == clocks_.end())
    return;
  strategies::require(found->second.held > 0, "a lease that nobody held");
  --found->second.held;
}

uint64_t StalenessClocks::clock(uint32_t worker) const {
  auto found = clocks_.find(worker);
  return found == clocks_.end() ? 0 : found->second.consumed;
}

uint64_t StalenessClocks::slowest() const {
  auto least = std::ranges::min_element(clocks_, {}, [](const auto& entry) {
    return entry.second.consumed;
  });
  return least == clocks_.end() ? 0 : least->second.consumed;
}

uint64_t StalenessClocks::lead(const Clock& clock) const {
  return clock.consumed + clock.held - slowest();
}

} // namespace troupe
