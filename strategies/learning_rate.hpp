#pragma once

#include <cstdint>

namespace troupe {

enum class LrSchedule : uint8_t { constant, step, cosine, inverse_sqrt };

struct LrOptions {
  LrSchedule schedule = LrSchedule::constant;
  double base = 1e-3;
  double min = 0.0;
  uint64_t warmup_steps = 0;
  uint64_t total_steps = 1;
};

/// Returns the learning rate of `step` (from 0). Warm-up is linear from
/// base / warmup_steps; `step` multiplies by 0.1 at 50 % and 75 % of the run;
/// `cosine` falls from base to min over what is left; `inverse_sqrt` is
/// base * sqrt(w / (step + 1)) with w = max(1, warmup_steps).
double learning_rate(const LrOptions& options, uint64_t step);

} // namespace troupe
