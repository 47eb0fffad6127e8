#pragma once

#include <cmath>

namespace troupe::kernels {

/// Natural logarithm for finite positive normal arguments, within 2e-16
/// relative of the larger of |log x| and 1. Own, for the C library's has other
/// bits on machines without FMA; a NaN stays.
inline double natural_log(double x) {
  int exponent = 0;
  auto m = std::frexp(x, &exponent); // [0.5, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  // log m = 2 atanh(s), |s| < 0.1716
  auto s = (m - 1) / (m + 1);
  auto square = s * s;
  double series = 0;
  for (int k = 21; k >= 1; k -= 2)
    series = series * square + 1.0 / k;
  constexpr double ln2 = 0.69314718055994531;
  return 2 * s * series + exponent * ln2;
}

} // namespace troupe::kernels
