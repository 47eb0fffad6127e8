#include "kernels/cpu/next_token.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"
#include "kernels/cpu/loop_table.hpp"
#include "kernels/numbers/random.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace troupe::kernels {

namespace {

/// Of what is exponentiated: whatever is less likely is not drawn either.
constexpr double lowest = -87;

/// Tokens, the likeliest first.
std::vector<int32_t> by_likelihood(std::span<const float> logits,
                                   size_t count) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    const auto x = logits[static_cast<size_t>(a)];
    const auto y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::partial_sort(order.begin(),
                    order.begin() + static_cast<ptrdiff_t>(count), order.end(),
                    likelier);
  order.resize(count);
  return order;
}

} // namespace

int32_t next_token(std::span<const float> logits, const SamplingRule& rule,
                   uint64_t draw) {
  require(!logits.empty(), "a choice of no tokens");
  if (rule.choices > 0)
    logits = logits.first(std::min<size_t>(rule.choices, logits.size()));
  if (!loops().all_finite(logits.data(), logits.size()))
    throw InputError("a logit is not a finite number; the weights were saved "
                     "by a run that had failed");
  if (rule.temperature == 0)
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end())
                                - logits.begin());
  const auto count = rule.top_k == 0
                       ? logits.size()
                       : std::min<size_t>(rule.top_k, logits.size());
  const auto order = by_likelihood(logits, count);
  // Weights are those of the own exponential, so the same on every machine.
  const double largest = logits[static_cast<size_t>(order.front())];
  std::vector<float> scaled;
  scaled.reserve(count);
  for (auto token : order)
    scaled.push_back(static_cast<float>(
      std::max(lowest, (logits[static_cast<size_t>(token)] - largest)
                         / rule.temperature)));
  std::vector<float> weights(count);
  loops().exp_shifted(scaled.data(), 0, weights.data(), count);
  double total = 0;
  for (auto weight : weights)
    total += weight;
  size_t kept = 0;
  double sum = 0;
  while (kept < count && (kept == 0 || sum < rule.top_p * total))
    sum += weights[kept++];
  const auto bits = random_bits(stream_key(rule.seed, 0x67656e), draw);
  const auto point = static_cast<double>(bits >> 11) * 0x1p-53 * sum;
  double below = 0;
  for (size_t i = 0; i + 1 < kept; ++i) {
    below += weights[i];
    if (point < below)
      return order[i];
  }
  return order[kept - 1];
}

} // namespace troupe::kernels
