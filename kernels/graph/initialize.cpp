#include "kernels/base/require.hpp"
#include "kernels/graph/virtual_slices.hpp"
#include "kernels/numbers/natural_log.hpp"
#include "kernels/numbers/random.hpp"

#include <cmath>

namespace troupe {

using kernels::require;

namespace {

/// A centred number from 24 bits: (k + 0.5) 2^-23 for k in [-2^23, 2^23), exact
/// in float until the one rounding of its product with a bound.
double signed_unit(uint64_t bits) {
  auto k = static_cast<int32_t>(bits >> 40) - (1 << 23);
  return (static_cast<double>(k) + 0.5) * 0x1p-23;
}

/// In (0, 1), from 53 bits, symmetric around one half.
double unit(uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

template <size_t N>
double polynomial(const double (&coefficients)[N], double x) {
  double result = coefficients[0];
  for (size_t i = 1; i < N; ++i)
    result = result * x + coefficients[i];
  return result;
}

/// The normal distribution's quantile, relative error below 1.2e-9: rational
/// functions for the middle and the tails. Own, as natural_log is.
/// Source: P. J. Acklam, "An algorithm for computing the inverse normal
/// cumulative distribution function", 2003.
double normal_quantile(double p) {
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,
                          -2.759285104469687e+02, 1.383577518672690e+02,
                          -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02,
                          -1.556989798598866e+02, 6.680131188771972e+01,
                          -1.328068155288572e+01, 1.0};
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01,
                          -2.400758277161838e+00, -2.549732539343734e+00,
                          4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01,
                          2.445134137142996e+00, 3.754408661907416e+00, 1.0};
  constexpr double tail = 0.02425;
  auto lower = [&](double q) {
    auto r = std::sqrt(-2 * kernels::natural_log(q));
    return polynomial(c, r) / polynomial(d, r);
  };
  if (p < tail)
    return lower(p);
  if (p > 1 - tail)
    return -lower(1 - p);
  auto q = p - 0.5;
  auto r = q * q;
  return q * polynomial(a, r) / polynomial(b, r);
}

} // namespace

void initialize(const Graph& graph, uint64_t seed, uint32_t parameter,
                uint64_t offset, float* out, uint64_t count) {
  require(parameter < graph.parameters.size(), "no such parameter");
  const auto& what = graph.parameters[parameter];
  require(offset <= what.size() && count <= what.size() - offset,
          "a slice ends outside its parameter");
  const auto key = kernels::stream_key(seed, whole_of(graph, parameter));
  auto fill = [&](auto value) {
    for_runs(graph, parameter, offset, count,
             [&](uint64_t at, uint64_t in_whole, uint64_t elements) {
               for (uint64_t i = 0; i < elements; ++i)
                 out[at + i] = static_cast<float>(
                   value(kernels::random_bits(key, in_whole + i)));
             });
  };
  switch (what.initializer) {
    case Initializer::zeros:
      return fill([](uint64_t) { return 0.0f; });
    case Initializer::ones:
      return fill([](uint64_t) { return 1.0f; });
    case Initializer::he_uniform:
    case Initializer::fan_in_uniform: {
      const double wide = what.initializer == Initializer::he_uniform ? 6 : 1;
      const double bound =
        static_cast<float>(std::sqrt(wide / static_cast<double>(what.fan_in)));
      return fill([&](uint64_t bits) { return signed_unit(bits) * bound; });
    }
    case Initializer::uniform:
      return fill(
        [&](uint64_t bits) { return signed_unit(bits) * what.scale; });
    case Initializer::normal:
      return fill([&](uint64_t bits) {
        return normal_quantile(unit(bits)) * what.scale;
      });
  }
}

} // namespace troupe
