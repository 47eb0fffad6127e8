#pragma once

#include "kernels/engine/replica.hpp"

#include <cstddef>
#include <memory>

namespace troupe::kernels {

enum class Side : char { as_is = 'N', transposed = 'T' };

/// c [m, n] = a [m, k] b [k, n] (+ c where accumulate), row-major without gaps;
/// a transposed operand lies as [k, m] or [n, k]. On this thread alone.
void multiply(Side side_a, Side side_b, size_t m, size_t n, size_t k,
              const float* a, const float* b, float* c,
              bool accumulate = false);

/// The above in a precision. bfloat16: operands are rounded to the nearest,
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
