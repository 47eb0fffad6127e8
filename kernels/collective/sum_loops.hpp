#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// Sums of n vectors, 1 to 64, along the fixed tree (PROTOCOL 3); the same bits
/// on every instruction set.
struct SumLoops {
  /// vectors[k][i] = the sum over all k, for i in [begin, end).
  void (*sum_to_all)(float* const* vectors, uint32_t n, size_t begin,
                     size_t end);
  /// out[i] = the sum over all k of from[k][i].
  void (*sum_into)(const float* const* from, uint32_t n, float* out,
                   size_t count);
};

const SumLoops& sum_loops(Isa isa);
const SumLoops& sum_loops();

} // namespace troupe::kernels
