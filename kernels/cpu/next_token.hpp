#pragma once

#include <cstdint>
#include <span>

namespace troupe::kernels {

/// How a token is chosen by its logits.
struct SamplingRule {
  double temperature = 0; ///< logits are divided by it; 0: the largest one
  uint32_t top_k = 0;     ///< of so many likeliest alone; 0: of all
  /// Of the fewest likeliest that have so much of the probability together.
  double top_p = 1;
  uint64_t seed = 0;
  uint32_t choices = 0; ///< of the first so many tokens alone; 0: of all
};

/// Chooses a token; of equal logits the first counts as the likelier one. The
/// choice follows from the logits, the rule and `draw`, which numbers the
/// choices of a text, on every machine.
/// Errors: InputError for logits that are not finite.
/// Source: Fan et al., "Hierarchical Neural Story Generation", 2018 (top-k);
/// Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020
/// (top-p); k first, then p of what is left.
int32_t next_token(std::span<const float> logits, const SamplingRule& rule,
                   uint64_t draw);

} // namespace troupe::kernels
