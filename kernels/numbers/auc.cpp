#include "kernels/numbers/auc.hpp"

#include "kernels/base/require.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace troupe {

double area_under_curve(std::span<const float> scores,
                        std::span<const int32_t> labels) {
  kernels::require(scores.size() == labels.size(), "a label for each score");
  constexpr auto unknown = std::numeric_limits<double>::quiet_NaN();
  if (std::any_of(scores.begin(), scores.end(),
                  [](float x) { return std::isnan(x); }))
    return unknown;
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return scores[a] < scores[b]; });
  uint64_t zeros = 0; // seen so far
  uint64_t ones = 0;
  uint64_t halves = 0; // pairs in order count two, ties one
  for (size_t i = 0; i < order.size();) {
    uint64_t tied_zeros = 0;
    uint64_t tied_ones = 0;
    const auto score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i)
      ++(labels[order[i]] == 0 ? tied_zeros : tied_ones);
    halves += tied_ones * (2 * zeros + tied_zeros);
    zeros += tied_zeros;
    ones += tied_ones;
  }
  if (zeros == 0 || ones == 0)
    return unknown;
  return static_cast<double>(halves) / 2 / static_cast<double>(zeros)
         / static_cast<double>(ones);
}

} // namespace troupe
