#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {

/// An operator as whoever cuts a graph into stages sees it. Units are free, but
/// one of time (nanoseconds, or FLOPs) and one of memory (bytes).
struct OpCost {
  uint64_t time = 0;     ///< forward and backward of a micro-batch
  uint64_t resident = 0; ///< parameters with all that belongs to them
  uint64_t stashed = 0;  ///< kept of a micro-batch from forward to backward
};

/// What crosses between operator i - 1 and operator i, were there a cut.
struct CutCost {
  uint64_t time = 0;  ///< both stages wait for it, there and back
  uint64_t bytes = 0; ///< of a micro-batch, there and back
  bool allowed = true;
};

/// Where a chain of operators may be cut into stages. Shapes: cuts [ops + 1];
/// the first and the last are the ends, where nothing crosses.
struct CutProblem {
  std::vector<OpCost> ops;
  std::vector<CutCost> cuts;
  /// Micro-batches that each stage keeps at once (stash_peak()); as many
  /// stages as it has entries.
  std::vector<uint32_t> in_flight;
  uint64_t memory_limit = ~uint64_t{0}; ///< of a stage
  /// What a stage keeps of operators [begin, end), where that is no sum of what
  /// each of them keeps: buffers whose lifetimes do not meet share memory.
  /// Empty: the sum of `resident` and, for each in flight, `stashed`.
  std::function<uint64_t(uint32_t stage, uint32_t begin, uint32_t end)> memory;
};

struct StageCuts {
  /// Operator that each stage begins with, the first one 0.
  std::vector<uint32_t> begins;
  uint64_t slowest = 0; ///< time of the stage that takes longest
  uint64_t bytes = 0;   ///< over all cuts
};

/// What stage `stage` takes and keeps if it has operators [begin, end).
uint64_t stage_time(const CutProblem& problem, uint32_t begin, uint32_t end);
uint64_t stage_memory(const CutProblem& problem, uint32_t stage, uint32_t begin,
                      uint32_t end);

/// The cuts whose slowest stage is fastest; of those, where least crosses; of
/// those, the earliest. Every stage has an operator. Exact: dynamic programming
/// over (stage, operator), stages x ops^2.
/// Errors: nothing where no cuts keep to the limit.
std::optional<StageCuts> cut_stages(const CutProblem& problem);

/// The smallest memory limit that some cuts keep to; nothing: there are no cuts
/// at all, for too few operators or places to cut.
std::optional<uint64_t> min_memory(const CutProblem& problem);

} // namespace troupe
