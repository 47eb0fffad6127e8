#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

/// Element-wise loops whose bits do not depend on offset, length, alignment or
/// instruction set: no contraction, one rounding per operation written.

/// out[i] = a[i] + b[i]; out may be a or b.
void add(const float* a, const float* b, float* out, size_t count);

/// Tells whether all values are finite.
bool all_finite(const float* values, size_t count);

} // namespace troupe
