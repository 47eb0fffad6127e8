#pragma once

#include "kernels/data/dataset.hpp"

#include <cstdint>

namespace troupe {

/// Draws text of 27 characters by a fixed rule: the two characters before
/// decide which four may follow, and these come with probabilities 1/2, 1/4,
/// 3/16 and 1/16. The rule is the same whatever the seed.
Dataset synthetic_text(uint64_t characters, uint64_t seed);

/// Nats of a character to who knows the rule and two characters before it: the
/// least mean loss of any model, but for the first two of a window.
double best_text_loss();

} // namespace troupe
