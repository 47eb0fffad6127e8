#pragma once

#include <cstdint>

namespace troupe {

enum class LrSchedule : uint8_t { constant, step, cosine, inverse_sqrt };

/// How a rate goes up and down, whatever its height.
struct LrShape {
  LrSchedule schedule = LrSchedule::constant;
  double min = 0.0; ///< where cosine ends
  uint64_t warmup_steps = 0;
};

/// What a schedule is made of. Units: steps; rates are those of an update.
struct LrOptions {
  LrShape shape;
  double base = 1e-3;
  uint64_t total_steps = 1;
};

/// Returns the learning rate of `step` (from 0). Warm-up is linear from
/// base / warmup_steps; `step` multiplies by 0.1 at 50 % and 75 % of the run;
/// `cosine` falls from base to min over what is left; `inverse_sqrt` is
/// base * sqrt(w / (step + 1)) with w = max(1, warmup_steps).
/// Source: warm-up: Goyal et al., "Accurate, Large Minibatch SGD", 2017,
/// section 2.2; step: He et al., "Deep Residual Learning for Image
/// Recognition", section 4.2; cosine: Loshchilov and Hutter, "SGDR", 2017,
/// without restarts; inverse_sqrt: Vaswani et al., "Attention Is All You Need",
/// 2017, section 5.3, up to a constant factor.
double learning_rate(const LrOptions& options, uint64_t step);

} // namespace troupe
