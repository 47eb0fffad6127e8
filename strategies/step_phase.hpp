#pragma once

#include "strategies/role_id.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// Where in a step, or in a repair, a role is: for faults that are put there
/// and for the coverage that tests count.
enum class StepPhase : uint8_t {
  none,
  at_once, ///< wherever it is
  pull,    ///< a worker has some of what it pulls; a tail has been asked
  compute, ///< a gradient is being computed
  push,    ///< some of a step's pushes, or buckets, are sent
  reduce,  ///< a slice's tree is complete, nothing is forwarded or applied; a
           ///< replica has the whole sum, others may not
  forward, ///< an update is forwarded, not acknowledged
  seal,    ///< sealed, not active
  copy,    ///< a replacement has some of what it is to hold
};
inline constexpr uint32_t step_phases = 9; ///< so many, with `none`

std::string to_string(StepPhase phase);
/// Errors: returns `none` for what is no phase.
StepPhase step_phase(const std::string& name);
/// Those that such a role goes through.
std::vector<StepPhase> phases_of(RoleKind kind);

} // namespace troupe
