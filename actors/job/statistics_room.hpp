#pragma once

#include "actors/job/job.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe {

/// Where a worker has room for what norms with statistics over all virtual
/// ranks give the others and take of them: in arrays of its own, which peers
/// may read.
struct StatisticsRoom {
  /// None for a model without cross_replica, or a worker without peers.
  StatisticsRoom(const Job& job, uint32_t workers);

  size_t values = 0;   ///< doubles that a rank has at most of a sum
  uint32_t arrays = 0; ///< FlatArrays that have room for it, one after another
  uint32_t first = 0;  ///< the first of them
};

inline constexpr size_t floats_of_double = sizeof(double) / sizeof(float);

/// What a member gives, in doubles: a line of its head, then of each rank its
/// rows and values; gaps to a line.
inline constexpr size_t statistics_head = 8;
size_t statistics_block(size_t ranks, size_t values);

/// Floats that the blocks of all members take.
size_t statistics_elements(uint32_t members, uint32_t virtual_ranks,
                           size_t values);

} // namespace troupe
