#include "strategies/bucket_tuning.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <limits>

namespace troupe {

BucketTuning::BucketTuning(uint32_t candidates)
  : settled_(candidates == 1),
    costs_(candidates, std::numeric_limits<float>::max()) {
  strategies::require(candidates > 0, "no bucket layout to choose from");
}

uint32_t BucketTuning::next() const {
  if (settled_)
    return chosen_;
  return steps_ % static_cast<uint32_t>(costs_.size());
}

void BucketTuning::took(double seconds) {
  if (settled_)
    return;
  if (steps_ >= warm_up_steps)
    costs_[next()] = std::min(costs_[next()], static_cast<float>(seconds));
  ++steps_;
}

bool BucketTuning::is_due() const {
  return !settled_ && steps_ >= warm_up_steps + trials * costs_.size();
}

void BucketTuning::settle(const std::vector<float>& costs_of_all) {
  strategies::require(is_due() && costs_of_all.size() == costs_.size(),
                      "a layout is settled once, when all have been tried");
  chosen_ = static_cast<uint32_t>(
    std::min_element(costs_of_all.begin(), costs_of_all.end())
    - costs_of_all.begin());
  settled_ = true;
}

} // namespace troupe
