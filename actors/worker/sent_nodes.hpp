#pragma once

#include "actors/wire/messages.hpp"

#include <vector>

namespace troupe {

/// Which nodes of a step the owner of a slice has already: those that an
/// activation lists, and those sent to it since.
class SentNodes {
public:
  explicit SentNodes(size_t slices) : of_slice_(slices) {}

  /// An epoch begins: the owners have this.
  void begin_epoch(const std::vector<SliceState>& held) {
    begin_step();
    for (const auto& state : held)
      if (state.slice < of_slice_.size())
        of_slice_[state.slice] = {state.newest, state.held};
  }
  /// Another step begins: of that they have nothing.
  void begin_step() {
    for (auto& slice : of_slice_)
      slice = {};
  }
  void sent(uint32_t slice, uint64_t step, RankRange node) {
    auto& there = of_slice_[slice];
    if (there.step != step)
      there = {step, {}};
    there.nodes.push_back(node);
  }

  /// A node that a held one covers is there already (PROTOCOL 10).
  bool has(uint32_t slice, uint64_t step, RankRange node) const {
    const auto& there = of_slice_[slice];
    if (there.step != step)
      return there.step > step; // it is over there
    for (const auto& held : there.nodes)
      if (held.covers(node))
        return true;
    return false;
  }

private:
  struct Slice {
    uint64_t step = 0; ///< version there: the steps before it are over
    std::vector<RankRange> nodes; ///< of that step
  };
  std::vector<Slice> of_slice_;
};

} // namespace troupe
