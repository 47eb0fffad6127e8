#pragma once

#include "actors/compute/leaf_computer.hpp"
#include "actors/compute/step_rows.hpp"
#include "actors/job/shard_tables.hpp"
#include "actors/job/slice_update.hpp"

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
  const auto& rows = gradient.nodes.front().rows;
  return whole_scalars(
           job, executor, moment,
           [&](const Slice& slice, UpdateArgs& args) {
             args.gradient_sum = sum->data() + job.flat_offset(slice);
             if (slice.sparse()) // all of a table's rows as one
               args.count = slice.partition > 0
                              ? 0
                              : rows->count() * row_width(job, slice);
           })
    .gradient_scale;
}

} // namespace troupe
