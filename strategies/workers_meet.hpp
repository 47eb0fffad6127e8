#pragma once

#include "strategies/plan.hpp"

namespace troupe {

/// Whether workers meet in each epoch, to sum with one another: gradients,
/// those of dense layers, or what passes in lock step need of each other.
/// Stages and tensor members have their mesh.
inline bool workers_meet(const Plan& plan, bool in_lock_step) {
  return plan.computing() == RoleKind::worker
         && (plan.owner_kind == RoleKind::worker || plan.dense_reduced
             || in_lock_step);
}

} // namespace troupe
