#pragma once

#include "kernels/optimizer/idle_update.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace troupe {

/// Writes the initial values of `rows` rows from id `first` on, a pure function
/// of the ids. Shapes: out [rows, width].
using InitialRows =
  std::function<void(uint64_t first, uint64_t rows, float* out)>;

/// When rows are given up. Bytes are those of the rows' contents, so that
/// copies of a table that lie in other memory decide alike.
struct Eviction {
  uint64_t max_bytes = 0;  ///< 0: no limit
  uint64_t idle_steps = 0; ///< not touched for so many; 0: no limit
  uint32_t kept_count = 0; ///< touched so often: not for idleness

  bool any() const { return max_bytes > 0 || idle_steps > 0; }
};

/// Updates that rows without a gradient have, too (--sparse-updates exact).
struct IdleUpdates {
  IdleUpdate kind = IdleUpdate::stays; ///< such rows stay, also where lazy
  OptimizerOptions rule = {};
  /// The arguments of the update after so many, without pointers and count; a
  /// pure function.
  std::function<UpdateArgs(uint64_t updates)> moment = {};

  bool any() const { return kind != IdleUpdate::stays; }
};

/// The shape of a table: rows of `width` values and as many of each slot.
struct TableOptions {
  size_t width = 0;
  uint32_t slots = 0; ///< of optimizer state, which starts at zero
  InitialRows initial;
  Eviction eviction = {};
  IdleUpdates idle = {}; ///< not beside eviction
};

} // namespace troupe
