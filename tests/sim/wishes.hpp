#pragma once

#include "tests/sim/runtime_parts.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::sim {

/// One of several.
inline std::string any(Random& draw, const std::vector<std::string>& names) {
  return names[draw.below(names.size())];
}

/// Draws what somebody may ask of who takes part, or who keeps which slice, in
/// the words of `troupe ctl`. `worker()` names one that may be removed; nothing
/// where none may.
template <class Worker>
std::optional<std::string> draw_change(Random& draw,
                                       const std::vector<std::string>& shards,
                                       Worker worker) {
  switch (draw.below(7)) {
    case 0:
      return "workers add 1";
    case 1: {
      const std::optional<std::string> removed = worker();
      return removed ? std::optional{"workers remove " + *removed}
                     : std::nullopt;
    }
    case 2:
    case 3:
      return "shards add 1";
    case 4:
      return "shards remove " + any(draw, shards);
    case 5:
      return "rebalance";
    default:
      return "move-slices " + any(draw, shards) + ' ' + any(draw, shards);
  }
}

} // namespace troupe::sim
