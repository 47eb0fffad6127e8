#pragma once

#include "actors/job.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// What a slice must know of the whole gradient before it can be applied
/// (PROTOCOL 5); the defaults are those of a step that needs none of it.
struct StepScalars {
  float gradient_scale = 1;        ///< of clipping by the global norm
  std::vector<float> trust_ratios; ///< per variable; empty without LAMB
};

/// Which update it is.
struct UpdateMoment {
  uint64_t count = 0; ///< updates of the slice before this one
  uint64_t step = 0;  ///< of the learning rate's schedule
  uint32_t samples = 0;
};

/// The one place where the rule of a slice's update is made: it depends on the
/// parameter that the slice is cut from (weight decay, running statistics), so
/// no update ever spans two. The caller adds the pointers.
UpdateArgs slice_update(const Job& job, const Slice& slice, UpdateMoment moment,
                        const StepScalars& scalars = {});

} // namespace troupe
