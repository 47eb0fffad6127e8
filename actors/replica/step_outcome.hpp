#pragma once

#include "actors/compute/step_gradient.hpp"
#include "actors/wire/messages.hpp"
#include "kernels/collective/reducer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// What became of one step of a member that reduces with others.
struct StepOutcome {
  uint64_t version = 0;     ///< held now
  bool taken = false;       ///< the step brought the member to `version`
  bool computed = false;    ///< this member's leaves are summed
  StepGradient gradient;    ///< a worker's beside shards; else without nodes
  double wait_seconds = 0;  ///< for others: for the whole sum, and at norms
  Reducer::Traffic traffic; ///< of this step
  std::vector<SnapshotSlice> snapshot;
  std::string failure; ///< the group cannot go on: one line; empty: it can
  std::string trouble; ///< nor can the job: one line for the user
};

} // namespace troupe
