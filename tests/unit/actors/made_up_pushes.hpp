#pragma once

#include "actors/job/job.hpp"
#include "actors/wire/messages.hpp"

#include <vector>

namespace troupe::test {

/// Numbers that depend on these alone.
inline TensorView made_up_gradient(const Job& job, uint64_t step, uint32_t rank,
                                   uint32_t slice) {
  std::vector<float> values(job.plan.slices[slice].count);
  uint32_t state = static_cast<uint32_t>(step * 1000 + rank * 100 + slice);
  for (auto& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
  }
  return TensorView::copy(values);
}

/// All pushes of a step, of each virtual rank by itself.
inline std::vector<Push> made_up_pushes(const Job& job, const Fence& fence,
                                        uint64_t step) {
  std::vector<Push> all;
  for (uint32_t rank = 0; rank < job.options.virtual_ranks; ++rank)
    for (const auto& slice : job.plan.slices)
      all.push_back({fence,
                     step,
                     {rank, rank + 1},
                     slice.id,
                     made_up_gradient(job, step, rank, slice.id)});
  return all;
}

} // namespace troupe::test
