#pragma once

#include "kernels/data/dataset.hpp"

#include <cstdint>

namespace troupe {

/// What rows are drawn from.
struct RowsOptions {
  uint64_t samples = 60'000;
  uint64_t seed = 0;
  uint64_t ids = 32; ///< of a sample
  uint64_t vocabulary = 1'000'000;
  /// Sample i has the ids that follow those of sample i - 1, from 0 on again
  /// after the last one; else each is drawn alone.
  bool in_order = false;

  /// Of all samples: more are not held, but drawn when they are wanted.
  static constexpr uint64_t max_held = uint64_t{1} << 27;
};

/// Draws samples of nothing but ids, whose label is 0: for what it costs to
/// reach the rows of a table. A pure function of the options. Of samples beyond
/// max_held nothing is in memory.
Dataset synthetic_rows(const RowsOptions& options);

} // namespace troupe
