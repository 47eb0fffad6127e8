#include "strategies/collective_verdict.hpp"

#include "strategies/require.hpp"

#include <algorithm>

namespace troupe {

namespace {

/// Calls below it have their sums at the member.
uint64_t held(const CollectiveSeal& seal) {
  return seal.done + (seal.whole ? 1 : 0);
}

} // namespace

CollectiveVerdict::CollectiveVerdict(uint32_t members) : seals_(members) {
  strategies::require(members > 0, "a verdict over nobody");
}

void CollectiveVerdict::seal(uint32_t member, const CollectiveSeal& seal) {
  strategies::require(member < seals_.size(), "a seal of no member");
  if (!seals_[member])
    seals_[member] = seal;
}

bool CollectiveVerdict::complete() const {
  return std::all_of(seals_.begin(), seals_.end(),
                     [](const auto& seal) { return seal.has_value(); });
}

std::vector<uint32_t> CollectiveVerdict::missing() const {
  std::vector<uint32_t> members;
  for (uint32_t m = 0; m < seals_.size(); ++m)
    if (!seals_[m])
      members.push_back(m);
  return members;
}

CollectiveDecision CollectiveVerdict::decide() const {
  strategies::require(complete(), "a verdict before all have sealed");
  uint32_t ahead = 0;
  uint32_t behind = 0;
  for (uint32_t m = 1; m < seals_.size(); ++m) {
    if (seals_[m]->done > seals_[ahead]->done)
      ahead = m;
    if (held(*seals_[m]) < held(*seals_[behind]))
      behind = m;
  }
  const auto done = seals_[ahead]->done;
  const auto everywhere = held(*seals_[behind]);
  if (everywhere < done)
    return {everywhere,
            "member " + std::to_string(ahead) + " was told that all have call "
              + std::to_string(done - 1) + ", member " + std::to_string(behind)
              + " lacks call " + std::to_string(everywhere),
            false};
  if (everywhere > done)
    return {everywhere,
            "all have the sums of call " + std::to_string(done)
              + ", nobody knew it",
            true};
  return {done,
          "member " + std::to_string(behind) + " lacks call "
            + std::to_string(done) + ", member " + std::to_string(ahead)
            + " is done with all before",
          true};
}

} // namespace troupe
