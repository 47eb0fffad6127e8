#include "strategies/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe {

namespace {

// std::cos may differ in its last bit between machines (the C library picks a
// variant by CPU), which would reach the weights. Sums and products of doubles
// and std::sqrt are exact to the rounding, so what follows is the same
// anywhere.

/// Returns sum of (-x^2)^i / (2i + k)! for i = 0, 1, …, for |x| <= pi / 4:
/// with k = 0 the cosine of x, with k = 1 sin(x) / x.
double series(double x, int k) {
  double result = 1;
  for (int i = 10; i > 0; --i)
    result = 1 - x * x * result / ((2 * i + k) * (2 * i + k - 1));
  return result;
}

/// Returns cos(pi t) for t in [0, 1].
double cos_pi(double t) {
  if (t > 0.5)
    return -cos_pi(1 - t);
  if (t <= 0.25)
    return series(std::numbers::pi * t, 0);
  auto x = std::numbers::pi * (0.5 - t);
  return x * series(x, 1);
}

double decayed(const LrOptions& x, uint64_t step) {
  auto done = static_cast<double>(step);
  auto total = static_cast<double>(x.total_steps);
  switch (x.shape.schedule) {
    case LrSchedule::step:
      return x.base * (done >= 0.5 * total ? 0.1 : 1.0)
             * (done >= 0.75 * total ? 0.1 : 1.0);
    case LrSchedule::cosine: {
      auto warmup = static_cast<double>(x.shape.warmup_steps);
      auto left = total - warmup;
      auto t = left > 0 ? std::min((done - warmup) / left, 1.0) : 1.0;
      return x.shape.min + (x.base - x.shape.min) * 0.5 * (1 + cos_pi(t));
    }
    case LrSchedule::inverse_sqrt: {
      auto w = static_cast<double>(std::max<uint64_t>(1, x.shape.warmup_steps));
      return x.base * std::sqrt(w / (done + 1));
    }
    case LrSchedule::constant:
      break;
  }
  return x.base;
}

} // namespace

double learning_rate(const LrOptions& options, uint64_t step) {
  if (step < options.shape.warmup_steps)
    return options.base * static_cast<double>(step + 1)
           / static_cast<double>(options.shape.warmup_steps);
  return decayed(options, step);
}

} // namespace troupe
