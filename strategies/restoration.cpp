#include "strategies/restoration.hpp"

#include <algorithm>

namespace troupe {

Restoration decide_restoration(const std::vector<Restorable>& slices,
                               uint64_t committed) {
  if (slices.empty())
    return {0, false, "nothing is owned"};
  uint64_t oldest = 0;
  uint64_t newest = slices.front().newest;
  for (const auto& slice : slices) {
    oldest = std::max(oldest, slice.oldest);
    newest = std::min(newest, slice.newest);
  }
  if (oldest <= newest && newest >= committed)
    return {newest, false, "every slice has version " + std::to_string(newest)};
  return {0, true,
          "a slice lost its state: it has version " + std::to_string(newest)
            + " of " + std::to_string(std::max(oldest, committed))};
}

} // namespace troupe
