#pragma once

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstddef>

namespace troupe::test {

/// |value - reference| <= absolute + relative * |reference|
struct Tolerance {
  double absolute;
  double relative;
};

/// One float32 operation after the other on a single element.
constexpr Tolerance float32_element = {1e-7, 4e-7};
/// Sums of a few hundred products in float32, in any order.
constexpr Tolerance float32_sum = {2e-5, 2e-5};
/// Central differences of a float64 reference, h = 1e-6.
constexpr Tolerance central_difference = {1e-7, 1e-6};
/// The own exponential.
constexpr Tolerance float32_exp = {0, 2.4e-7};

inline bool within(Tolerance tolerance, double value, double reference) {
  return std::abs(value - reference)
         <= tolerance.absolute + tolerance.relative * std::abs(reference);
}

/// Checks a run of values; reports the first that is off and counts the rest.
template <class Values, class References>
void check_within(Tolerance tolerance, const Values& values,
                  const References& references, size_t count) {
  size_t off = 0;
  size_t first = 0;
  for (size_t i = 0; i < count; ++i)
    if (!within(tolerance, values[i], references[i]) && off++ == 0)
      first = i;
  BOOST_CHECK_MESSAGE(off == 0, off << " of " << count << " values are off; "
                                    << "the first, [" << first << "], is "
                                    << values[first] << " rather than "
                                    << references[first]);
}

} // namespace troupe::test
