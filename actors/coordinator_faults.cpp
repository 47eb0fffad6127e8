#include "actors/coordinator_state.hpp"

// Faults on purpose: what can be done to whom.

namespace troupe {

caf::result<Note> CoordinatorState::on(const InjectFault& fault) {
  if (stage_ != Stage::running || steps_ >= end_)
    return caf::make_error(caf::sec::request_receiver_down,
                           "the run is ending");
  if (fault.role.kind == RoleKind::coordinator)
    return begun_ && job_->options.processes && fault.kind == FaultKind::kill
             ? faults_.inject_own(fault, journal_)
             : caf::make_error(caf::sec::invalid_argument,
                               "the coordinator of processes can be killed, "
                               "and nothing else");
  if (fault.kind != FaultKind::kill && !job_->options.processes)
    return caf::make_error(caf::sec::invalid_argument,
                           "roles of one process can only be killed");
  if (fault.kind == FaultKind::cut && job_->plan.owner_kind != RoleKind::shard)
    return caf::make_error(caf::sec::invalid_argument,
                           "links of an all-reduce are cut from outside, by "
                           "the proxy that they are dialled through");
  const auto present = present_.find(fault.role);
  return faults_.inject(
    fault, present == present_.end() ? role_actor{} : present->second.actor,
    [&](StepPhase phase) { return epoch_plan_.passes(fault.role, phase); },
    Clock::now());
}

} // namespace troupe
