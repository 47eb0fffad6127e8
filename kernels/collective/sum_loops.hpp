#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// A sum of vectors along a tree: vector k is pushed on a stack, then
/// merges[k] times the two newest are replaced by their sum, the older one on
/// the left (SumProgram). Exactly one sum is left, never more than
/// `deepest_sum` are held.
struct SumSources {
  const float* const* vectors;
  const uint32_t* merges;
  uint32_t count; ///< at least 1
};

/// Sums along a tree; the same bits on every instruction set, for every offset
/// and length.
struct SumLoops {
  /// out[k][i] = the sum of vectors[.][i], for all k below `outs` and i in
  /// [begin, end). An out may be one of the vectors.
  void (*sum)(const SumSources& sources, size_t begin, size_t end,
              float* const* out, uint32_t outs);
  /// As sum; all outs but the first are written past the caches, for they lie
  /// in another core's. They are 64-byte aligned.
  void (*sum_past_cache)(const SumSources& sources, size_t begin, size_t end,
                         float* const* out, uint32_t outs);
  /// Copies past the caches.
  void (*copy_past_cache)(const float* from, float* to, size_t count);
};

const SumLoops& sum_loops(Isa isa);
const SumLoops& sum_loops();

} // namespace troupe::kernels
