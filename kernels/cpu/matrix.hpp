#pragma once

#include <cstddef>

namespace troupe::kernels {

enum class Side : char { as_is = 'N', transposed = 'T' };

/// c [m, n] = a [m, k] b [k, n] (+ c where accumulate), row-major without gaps;
/// a transposed operand lies as [k, m] or [n, k]. On this thread alone.
void multiply(Side side_a, Side side_b, size_t m, size_t n, size_t k,
              const float* a, const float* b, float* c,
              bool accumulate = false);

} // namespace troupe::kernels
