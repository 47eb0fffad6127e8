#include "kernels/cpu/transposed_copy.hpp"

#include "kernels/base/intrinsics.hpp"

#include <algorithm>

namespace troupe::kernels {

namespace {

#define INLINE [[maybe_unused]] static inline
#include "kernels/cpu/four_leaf.inc"
#undef INLINE

constexpr size_t line = 16; ///< floats of a cache line

void turn_four(const float* from, size_t from_stride, float* to,
               size_t to_stride) {
  Four a = load_four(from);
  Four b = load_four(from + from_stride);
  Four c = load_four(from + 2 * from_stride);
  Four d = load_four(from + 3 * from_stride);
  turn_fours(a, b, c, d);
  store_four(to, a);
  store_four(to + to_stride, b);
  store_four(to + 2 * to_stride, c);
  store_four(to + 3 * to_stride, d);
}

} // namespace

/// A line's worth of rows at a time, so that lines are written whole.
void transposed_copy(const float* from, size_t from_stride, size_t rows,
                     size_t columns, float* to, size_t to_stride) {
  const auto fours = columns / 4 * 4;
  for (size_t begin = 0; begin < rows; begin += line) {
    const auto end = std::min(begin + line, rows);
    const auto whole = begin + (end - begin) / 4 * 4;
    for (size_t k = 0; k < fours; k += 4)
      for (size_t r = begin; r < whole; r += 4)
        turn_four(from + r * from_stride + k, from_stride,
                  to + k * to_stride + r, to_stride);
    for (size_t r = begin; r < end; ++r)
      for (size_t k = r < whole ? fours : 0; k < columns; ++k)
        to[k * to_stride + r] = from[r * from_stride + k];
  }
}

} // namespace troupe::kernels
