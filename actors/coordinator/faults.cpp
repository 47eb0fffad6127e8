#include "actors/coordinator/state.hpp"

// Faults on purpose: what can be done to whom.

namespace troupe {

caf::result<Note> CoordinatorState::on(const InjectFault& fault) {
  if (!options_.allow_faults)
    return caf::make_error(caf::sec::invalid_argument,
                           "this run obeys no faults: start it with "
                           "--allow-faults");
  if (!course_.is_running() || steps_ >= course_.end())
    return caf::make_error(caf::sec::request_receiver_down,
                           "the run is ending");
  const bool own = fault.role.kind == RoleKind::coordinator;
  const bool fills = fault.kind == FaultKind::full_disk;
  const bool slows = fault.kind == FaultKind::slow_disk;
  if (own && begun_ && job_->options.processes && fills)
    return faults_.fill_disk(fault, options_.disk, journal_);
  if (own && begun_ && job_->options.processes && slows)
    return faults_.slow_disk(fault, options_.disk, journal_);
  if (own && begun_ && job_->options.processes && fault.kind == FaultKind::kill)
    return faults_.inject_own(fault, journal_);
  if (own || fills || slows)
    return caf::make_error(caf::sec::invalid_argument,
                           "the coordinator of processes, and it alone, can be "
                           "killed and have its disk full or slow");
  if (fault.kind != FaultKind::kill && !job_->options.processes)
    return caf::make_error(caf::sec::invalid_argument,
                           "roles of one process can only be killed");
  const auto present = present_.find(fault.role);
  return faults_.inject(
    fault, present == present_.end() ? role_actor{} : present->second.actor,
    [&](StepPhase phase) { return epoch_plan_.passes(fault.role, phase); },
    Clock::now());
}

} // namespace troupe
