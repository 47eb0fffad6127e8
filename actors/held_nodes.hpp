#pragma once

#include "actors/messages.hpp"

#include <vector>

namespace troupe {

/// Which nodes of a step the owners have already, as an activation lists them.
class HeldNodes {
public:
  HeldNodes(const std::vector<SliceState>& held, size_t slices)
    : known_(slices, nullptr) {
    for (const auto& state : held)
      if (state.slice < known_.size())
        known_[state.slice] = &state;
  }

  /// A node that a held one covers is there already (PROTOCOL 10).
  bool has(uint32_t slice, uint64_t step, RankRange node) const {
    const auto* state = known_[slice];
    if (state == nullptr || state->newest < step)
      return false;
    if (state->newest > step)
      return true;
    for (const auto& held : state->held)
      if (held.covers(node))
        return true;
    return false;
  }

private:
  std::vector<const SliceState*> known_;
};

} // namespace troupe
