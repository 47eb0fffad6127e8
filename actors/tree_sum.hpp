#pragma once

#include "actors/tensor_view.hpp"
#include "strategies/rank_tree.hpp"

#include <cstdint>
#include <map>

namespace troupe {

/// Sums contributed tree nodes over elements [begin, end) into `out` (indexed
/// like the contributions), along the fixed tree, block by block: each input
/// is read once. Empty views are the identity.
/// Errors: a virtual rank that no contribution covers is a bug and asserts.
void tree_sum(const std::map<RankRange, TensorView>& contributions,
              uint32_t virtual_ranks, uint64_t begin, uint64_t end, float* out);

} // namespace troupe
