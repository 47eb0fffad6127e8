#pragma once

#include <cstdint>

namespace troupe {

/// The step, or the update, that a micro-batch is a part of: how many rows it
/// has, and in how many micro-batches. Without rows: the micro-batch is all of
/// it.
struct WholeStep {
  uint32_t rows = 0;
  uint32_t leaves = 0;
};

} // namespace troupe
