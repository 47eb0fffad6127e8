#pragma once

#include "actors/leaf_computer.hpp"
#include "actors/slice_update.hpp"

namespace troupe {

/// Leases a worker asks for at a time.
inline constexpr uint32_t lease_batch = 8;

struct LeaseGradient {
  StepGradient gradient;
  float scale = 1; ///< of clipping
};

/// Without an order of steps, clipping is per push (PROTOCOL 5).
inline float push_scale(const Job& job, Executor* executor,
                        const StepGradient& gradient) {
  const auto& sum = gradient.nodes.front().sum;
  if (!sum)
    return 1;
  const UpdateMoment moment{0, 0, gradient.leaves.front().samples};
  return whole_scalars(job, executor, moment,
                       [&](const Slice& slice, UpdateArgs& args) {
                         args.gradient_sum = sum->data()
                                             + job.flat_offset(slice);
                       })
    .gradient_scale;
}

} // namespace troupe
