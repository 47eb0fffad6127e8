#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace troupe {

/// A half-open range [lo, hi) of virtual ranks. As a node of the reduction
/// tree it stands for the sum of those ranks' gradients.
struct RankRange {
  uint32_t lo = 0;
  uint32_t hi = 0;

  uint32_t size() const { return hi - lo; }
  bool empty() const { return lo >= hi; }
  bool covers(RankRange other) const {
    return lo <= other.lo && other.hi <= hi;
  }
  friend bool operator==(const RankRange&, const RankRange&) = default;
  friend auto operator<=>(const RankRange&, const RankRange&) = default;
};

/// Returns the two children of `node`: it splits at lo plus the largest power
/// of two below its size (PROTOCOL 3).
/// The shape is that of the trees of RFC 6962, section 2.1.
/// Errors: a leaf (size 1) or an empty range is a bug and asserts.
std::pair<RankRange, RankRange> children(RankRange node);

/// Tells whether `range` is a node of the tree over `virtual_ranks` leaves.
bool is_node(RankRange range, uint32_t virtual_ranks);

/// Returns the largest nodes that lie wholly inside `range`, left to right:
/// what a worker that owns `range` sends (PROTOCOL 3).
std::vector<RankRange> maximal_nodes(RankRange range, uint32_t virtual_ranks);

/// Returns the contiguous range of virtual ranks that worker `index` of
/// `workers` owns: [floor(index V / workers), floor((index + 1) V / workers)).
RankRange ranks_of_worker(uint32_t index, uint32_t workers,
                          uint32_t virtual_ranks);

} // namespace troupe
