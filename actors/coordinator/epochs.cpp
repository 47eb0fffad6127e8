#include "actors/coordinator/present_hosts.hpp"
#include "actors/coordinator/state.hpp"
#include "actors/journal/history.hpp"
#include "strategies/workers_meet.hpp"

// From a proposal to what the members of the next epoch are told.

namespace troupe {

void CoordinatorState::perform(const Membership::Actions& actions) {
  for (const auto& action : actions)
    std::visit([this](const auto& x) { perform(x); }, action);
}

void CoordinatorState::perform(const Membership::Propose& propose) {
  fence_ = {};
  seals_.clear();
  proposed_ = {options_.job_id, options_.term, propose.epoch};
  for (auto role : propose.members)
    self_->send(present_[role].actor,
                Propose{proposed_, switch_.now(), commits_.committed()});
}

void CoordinatorState::perform(const Membership::Activate& activate) {
  fence_ = {options_.job_id, options_.term, activate.epoch};
  metrics_.epoch.set(static_cast<double>(activate.epoch));
  if (!reshaping_.pending())
    epoch_plan_.spread(hosts_of(present_));
  const auto epoch = epoch_plan_.decide(seals_, known(), activate.epoch);
  auto message = told(epoch);
  if (epoch.mode == ResumeMode::leases)
    resume_leases(epoch);
  else
    resume_steps(message, epoch);
  const bool undone = epoch.resume.verdict == ResumeVerdict::compute_again
                      && !ending_.last;
  switch_or_go_on(message);
  write_down(std::move(message), undone,
             activate.cause + "; " + epoch.resume.reason);
}

/// What members hear of the decision, before what this coordinator alone knows:
/// the checkpoint that a rollback goes to, the period that begins.
Activate CoordinatorState::told(const EpochDecision& epoch) const {
  Activate message;
  message.fence = fence_;
  const bool all_dialled = workers_meet(job_->plan, job_->goes_in_lock_step())
                           || job_->options.link == "shm"; // looks at its own
  for (const auto& [role, present] : present_) {
    if (!is_member_kind(role.kind))
      continue;
    if (all_dialled || role.kind != RoleKind::worker)
      message.members.push_back({role, present.endpoint, present.links});
    else // nobody dials it, and there may be a thousand
      message.members.push_back({role, {}, {}});
  }
  message.version = epoch.resume.message.version;
  message.source = epoch.resume.message.source;
  message.synchronise = epoch.resume.message.synchronise;
  message.slices = epoch.slices;
  message.chains = epoch.chains;
  message.ranks = epoch.ranks;
  message.missing = epoch.missing;
  return message;
}

/// What the job relies on, here and with the coordinator before.
EpochPlan::Known CoordinatorState::known() const {
  EpochPlan::Known out;
  out.period = switch_.now();
  out.committed = commits_.committed();
  out.leases = leases_.known();
  out.reports_lost = options_.past || left_out_.returned();
  if (options_.past && options_.past->epoch > 0) { // written a while later
    out.told_another = options_.past->members;
    // A worker that was lost here had what it kept in its process.
    std::erase_if(*out.told_another, [&](const auto& member) {
      return member.first.kind == RoleKind::worker
             && membership_.is_gone(member.first, member.second);
    });
  }
  return out;
}

/// The epoch is decided for good: its members are told.
void CoordinatorState::announce(const Activate& message) {
  left_out_.begun();
  if (std::exchange(options_.past, nullptr))
    note(back_line(options_.term));
  if (!begun_) {
    begun_ = true;
    record_.begin(Clock::now());
    touched_ = Clock::now();
  } else {
    for (const auto& kind : record_.resumed(present_roles()))
      metrics_.registry.counter(metrics::recoveries_total, {{"kind", kind}})
        .add();
  }
  for (const auto& [role, present] : present_)
    if (is_member_kind(role.kind))
      self_->send(present.actor, message);
  evaluator_.tell(self_, *job_, fence_, present_);
  checkpoints_.ask_again(steps_);
  faults_.whole(epoch_plan_.whole(present_roles(), message.version));
  if (course_.stage() == RunCourse::Stage::pausing && !async_)
    pause();
  else if (course_.ends_early())
    for_all(EndAt{fence_, course_.end()});
  if (async_ && course_.stage() != RunCourse::Stage::concluding)
    snapshot_if_done();
  if (const auto line = std::exchange(switched_, std::nullopt)) {
    observers_.tell(*line);
    for (auto& promise : std::exchange(switchers_, {}))
      promise.deliver(*line);
  }
  if (switch_.pending())
    drain();
  for (const auto& [shard, bytes] : epoch_plan_.kept_bytes())
    loads_.keeps(shard, bytes);
  Reshaping::Actions actions;
  reshaping_.began(present_roles(), clock_.ms(), actions);
  perform(actions);
}

void CoordinatorState::perform(const Membership::Await& await) {
  std::string names;
  for (auto role : await.roles)
    names += (names.empty() ? "" : ", ") + to_string(role);
  note("waiting for " + names + ": nobody else has all that was applied");
}

/// Slices go on with what they have, each with the set of its leases; what a
/// chain has lost is computed again for it, and the others drop it.
void CoordinatorState::resume_leases(const EpochDecision& epoch) {
  const auto& found = epoch.resume;
  auto resumed = leases_.begin_epoch(epoch_plan_.workers(), epoch.sealed,
                                     found.lost_leases, steps_);
  if (ending_.last)
    return; // the weights of the end are here
  if (found.verdict == ResumeVerdict::compute_again) {
    const auto steps = steps_ - resumed.step;
    steps_ = resumed.step;
    record_.rolled_back(steps_, steps, found.lost_leases);
    journal_.rolled_back(steps_, steps, found.reason, record_.counts(commits_));
    snapshots_.clear();
    data_epoch_ends_.erase(data_epoch_ends_.upper_bound(steps_),
                           data_epoch_ends_.end());
    note("rollback to step " + std::to_string(steps_) + ", "
         + std::to_string(steps) + " steps undone: " + found.reason);
  }
  committed(resumed.completed);
}

void CoordinatorState::resume_steps(Activate& message,
                                    const EpochDecision& epoch) {
  commits_.owners(epoch.owners);
  if (epoch.resume.rolls_back()) {
    roll_back(message, epoch.resume.reason);
    return;
  }
  committed(commits_.forgive(message.version));
  committed(commits_.excuse(message.version, epoch.unreported));
}

void CoordinatorState::roll_back(Activate& message, const std::string& reason) {
  message.rollback = true;
  checkpoints_.go_back(message, switch_);
  const auto undone = commits_.rollback(message.version);
  steps_ = message.version; // a run may be told to end before the next commit
  record_.rolled_back(message.version, undone);
  journal_.rolled_back(message.version, undone, reason,
                       record_.counts(commits_));
  snapshots_.clear();
  data_epoch_ends_.clear();
  note("rollback to step " + std::to_string(message.version) + ", "
       + std::to_string(undone) + " steps undone: " + reason);
}

void CoordinatorState::on(const Sealed& sealed) {
  if (sealed.fence != proposed_ || course_.is_over())
    return;
  auto known = present_.find(sealed.role);
  if (known == present_.end()
      || known->second.incarnation != sealed.incarnation)
    return;
  seals_[sealed.role] = {sealed.incarnation, sealed.slices, sealed.version,
                         sealed.nodes};
  heard_sender();
  faults_.pass_own(StepPhase::seal);
  perform(membership_.sealed(sealed.role, sealed.incarnation,
                             sealed.fence.epoch, clock_.ms()));
}

/// Asks for another epoch of the same members.
void CoordinatorState::renew(const std::string& cause) {
  if (fence_.job != 0 && !course_.is_over())
    perform(membership_.renew(cause, clock_.ms()));
}

} // namespace troupe
