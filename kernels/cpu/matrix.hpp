#pragma once

#include "kernels/engine/replica.hpp"

#include <cstddef>
#include <memory>

namespace troupe::kernels {

enum class Side : char { as_is = 'N', transposed = 'T' };

/// Blocks that k is cut into, in float32, are all so long but the last: as few
/// as may be, and about as long as each other.
constexpr size_t max_chain_length = 256;
constexpr size_t chain_length(size_t k) {
  const auto blocks = (k + max_chain_length - 1) / max_chain_length;
  return k <= max_chain_length ? k : (k + 4 * blocks - 1) / (4 * blocks) * 4;
}

/// c [m, n] = a [m, k] b [k, n] (+ c where accumulate), row-major without gaps;
/// a transposed operand lies as [k, m] or [n, k]. On this thread alone. The
/// bits of an element follow from its operands and k, as
/// docs/numeric_classes.md says.
void multiply(Side side_a, Side side_b, size_t m, size_t n, size_t k,
              const float* a, const float* b, float* c,
              bool accumulate = false);

/// As above, but each element's sum is one chain along all of k, begun with the
/// old c, as NonzeroProduct sums it: either may be taken for the other.
void multiply_in_one_chain(Side side_a, Side side_b, size_t m, size_t n,
                           size_t k, const float* a, const float* b, float* c,
                           bool accumulate);

/// The first in a precision. bfloat16: operands are rounded to the nearest,
/// ties to even; sums and c stay float32. Keeps what it prepared for the shapes
/// it saw. Used by one thread at a time.
class Multiplier {
public:
  /// bfloat16 asks for has_bfloat16().
  explicit Multiplier(Precision precision);
  ~Multiplier();

  void multiply(Side side_a, Side side_b, size_t m, size_t n, size_t k,
                const float* a, const float* b, float* c,
                bool accumulate = false);

private:
  struct Bfloat16;
  std::unique_ptr<Bfloat16> bfloat16_; ///< null: float32
};

} // namespace troupe::kernels
