#include "actors/coordinator/state.hpp"
#include "actors/job/first_period.hpp"
#include "actors/job/shard_tables.hpp"

#include <algorithm>

// Switching between synchronous and asynchronous while the job runs
// (strategies/consistency_switch.hpp).

namespace troupe {

caf::result<Note> CoordinatorState::on(const SwitchConsistency& wanted) {
  const auto refuse = [](const std::string& why) {
    return caf::make_error(caf::sec::invalid_argument, why);
  };
  Consistency mode;
  if (!parse(wanted.mode, mode))
    return refuse(wanted.mode + ": expected sync, async or staleness:N");
  if (job_->plan.owner_kind != RoleKind::shard || job_->plan.paired
      || job_->plan.served)
    return refuse("strategy " + to_string(job_->options.strategy)
                  + " is always synchronous");
  if (mode.async && job_->options.rule.kind == OptimizerKind::lamb)
    return refuse("optimizer lamb needs the whole gradient of a step, which "
                  "async does not have");
  if (mode.async && job_->goes_in_lock_step())
    return refuse("a norm with cross_replica needs all virtual ranks of a step "
                  "at once, which async computes one by one");
  if (mode.async && has_exact_rows(*job_))
    return refuse("rows that make up updates later (--sparse-updates exact) "
                  "need the learning rates of steps, which async does not "
                  "have");
  if (is_ending())
    return refuse("the run is ending");
  if (switch_.pending() || switched_)
    return refuse("another switch is under way");
  if (reshaping_.pending())
    return refuse("another change is under way");
  if (switch_.is_now(mode)) {
    record_.switched(steps_, wanted.mode, Clock::now());
    journal_.switched(steps_, wanted.mode);
    return Note{"it is " + wanted.mode + " already"};
  }
  switch_.ask(mode);
  auto promise = self_->make_response_promise<Note>();
  switchers_.push_back(promise);
  if (fence_.job != 0)
    drain();
  return promise;
}

void CoordinatorState::drain() {
  switch_.drain_again();
  if (switch_.bound_only())
    switch_if_drained();
  else if (async_)
    drained_at(leases_.hold());
  else
    pause();
}

void CoordinatorState::drained_at(uint64_t step) {
  switch_.drain_at(step);
  if (!async_)
    for (const auto& [role, present] : present_)
      if (role.kind == RoleKind::worker)
        self_->send(present.actor, EndAt{fence_, step});
  switch_if_drained();
}

bool CoordinatorState::is_drained() const {
  if (!switch_.pending() || !course_.is_running())
    return false;
  if (switch_.bound_only())
    return true;
  const auto end = switch_.drain();
  return end && *end < job_->total_steps
         && (async_ ? leases_.drained() : commits_.committed() == *end);
}

void CoordinatorState::switch_if_drained() {
  if (fence_.job == 0 || !is_drained())
    return;
  // It is not done here: this may be the middle of an activation.
  self_->send(self_, Completion{[this] {
                if (is_drained())
                  renew("consistency is switched");
              }});
}

void CoordinatorState::switch_or_go_on(Activate& message) {
  for (const auto& slice : message.slices)
    if (async_ && slice.newest < switch_.now().updates) {
      fail("a shard has lost what the job learnt before step "
           + std::to_string(switch_.now().step)
           + ", when it was switched to async: start again");
      return;
    }
  if (is_drained() && !message.rollback) {
    const bool was_async = switch_.now().async;
    const auto& now = switch_.take_place();
    const auto mode = to_string(now);
    if (now.async && was_async) {
      leases_.bound(now);
    } else {
      async_ = hands_out_leases(*job_, now);
      period_epoch_ = fence_.epoch;
      message.version = now.step;
      message.slices.clear(); // they are all that the next period begins with
      message.missing = {{0, job_->options.virtual_ranks}};
      if (async_) {
        leases_.begin_period(now, epoch_plan_.workers(), epoch_plan_.tails());
      } else {
        commits_.rollback(now.step);
        if (!job_->plan.dense_reduced) // workers commit as well
          commits_.owners(epoch_plan_.tails(), now.step);
      }
    }
    record_.switched(steps_, mode, Clock::now());
    journal_.switched(steps_, mode);
    switched_ = Note{mode + " from step " + std::to_string(steps_) + " on"};
  }
  message.consistency = switch_.now();
}

} // namespace troupe
