#include "actors/coordinator/run_outputs.hpp"
#include "actors/coordinator/state.hpp"
#include "actors/role/context.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

// The end of a run: by itself, by a wish, or because it cannot go on.

namespace troupe {

void CoordinatorState::on(const StopRequest& request) {
  const auto stopped = course_.stop(request.why, steps_);
  if (stopped == RunCourse::Stopped::before)
    return;
  ending_.stopped = Clock::now();
  // Whoever starts coordinators says it to the next one, should this one die.
  if (supervisor_)
    self_->send(supervisor_, request);
  leaves_.end();
  if (stopped == RunCourse::Stopped::as_is) {
    conclude_if_ready();
    return;
  }
  if (async_)
    leases_.close();
  if (fence_.job == 0)
    return; // the next epoch goes on from here
  if (async_) {
    snapshot_if_done();
  } else {
    pause();
  }
}

bool CoordinatorState::stops_late(Clock::time_point now) const {
  using std::chrono::milliseconds;
  if (!course_.is_stopped() || course_.stage() == RunCourse::Stage::concluding)
    return false;
  if (!begun_)
    return now > ending_.stopped + milliseconds{options_.stop_deadline_ms};
  const std::chrono::duration<double> steps{3 * record_.seconds_of_last_step()};
  return now - std::max(ending_.stopped, touched_)
         > std::max(milliseconds{options_.stop_patience_ms},
                    patience_with_readers())
             + steps;
}

void CoordinatorState::skip_pause(Clock::time_point now) {
  const auto pause = clock_.take_pause(now);
  for (auto* moment :
       {&joined_, &touched_, &ending_.stopped, &ending_.leave_deadline})
    *moment += pause;
  for (auto& [role, since] : lost_)
    since += pause;
}

/// Members that end their passes have a deadline of their own.
void CoordinatorState::skip_seals(Clock::time_point now) {
  const auto since_last_look = now - std::exchange(looked_, now);
  if (membership_.state() == Membership::State::sealing && begun_)
    for (auto* moment : {&touched_, &ending_.stopped})
      *moment += since_last_look;
}

void CoordinatorState::pause() {
  paused_.clear();
  for_all(Pause{fence_});
}

void CoordinatorState::on(const Paused& paused) {
  if (!current(paused.fence))
    return;
  if (course_.stage()
      == RunCourse::Stage::ending) { // the wish to pause reached it once more
    if (const auto worker = present_.find(paused.worker);
        worker != present_.end())
      self_->send(worker->second.actor, EndAt{fence_, course_.end()});
    return;
  }
  const bool drains = course_.is_running() && switch_.pending();
  if (course_.stage() != RunCourse::Stage::pausing && !drains)
    return;
  paused_[paused.worker] = paused.next_step;
  if (paused_.size() < epoch_plan_.beginners())
    return;
  uint64_t last = 0;
  for (const auto& [worker, step] : paused_)
    last = std::max(last, step);
  // Slices may have had a step of a worker that is gone. Rows that run free
  // count updates, not steps, and so do the seals before a period.
  if (!switch_.now().async && fence_.epoch != period_epoch_)
    last = std::max(last, epoch_plan_.newest_sealed());
  if (drains) {
    drained_at(last);
    return;
  }
  course_.end_at(last);
  snapshots_.again(last); // it may have been shown as the end of a data epoch
  for_all(EndAt{fence_, last});
  conclude_if_ready();
}

void CoordinatorState::conclude_if_ready() {
  const bool digests = job_->options.digests;
  if (!digests && !ending_.last)
    ending_.last.emplace();
  const bool stopped = course_.is_stopped();
  if (!ending_.last
      || !course_.conclude(async_ || commits_.committed() == course_.end()))
    return;
  if (evaluator_ && course_.awaits_evaluation())
    return;
  if (digests
      && !checkpoints_.is_last_written(*ending_.last, switch_.now(),
                                       stopped ? "stopped" : "end"))
    return;
  if (!course_.begin_outputs())
    return;
  // A run that is ended early must not leave less than there was. What it was
  // to go on from may be in a mount that is late.
  const auto& kept = options_.checkpoints;
  const bool goes_on = job_->first_step() > 0
                       || record_.counts(commits_).rolled_back > 0
                       || (kept.resume && !kept.fresh);
  const OutputWish wish{digests, options_.save, steps_, stopped && goes_on};
  run_on(
    *outputs_, self_,
    [job = job_, last = *ending_.last, wish] {
      return make_outputs(*job, last, wish);
    },
    [this](const RunOutputs& outputs) {
      if (!course_.is_over())
        conclude(outputs);
    });
}

void CoordinatorState::conclude(const RunOutputs& outputs) {
  RunRecord::Outcome outcome;
  outcome.steps = steps_;
  outcome.leaves_recomputed = commits_.leaves_recomputed();
  outcome.ranks_left_out = commits_.ranks_left_out();
  outcome.max_lead = leases_.max_lead();
  if (async_)
    outcome.rest = leases_.rest();
  outcome.isa = options_.isa;
  for (const auto& [numeric_class, probe] : probes_)
    outcome.numeric_class += (outcome.numeric_class.empty() ? "" : " and ")
                             + numeric_class;
  outcome.checkpoints = checkpoints_.written();
  outcome.tables = outputs.tables;
  outcome.weights_sha256 = outputs.weights_sha256;
  outcome.state_sha256 = outputs.state_sha256;
  const auto where = " after step " + std::to_string(steps_) + " of "
                     + std::to_string(job_->total_steps);
  if (course_.is_stopped())
    outcome.stopped = course_.why() + where;
  outcome.hosts = hosts_of_members();
  outcome.story = options_.page.get();
  for (const auto& [step, end] : data_epoch_ends_)
    observers_.tell(end);
  const auto end = end_of_outputs(outputs.weights, checkpoints_.last_folder(),
                                  checkpoints_.last_failure());
  using Json = nlohmann::ordered_json;
  // Whatever a model is called, this is JSON.
  Finished finished{end.complete ? 0 : 1, end.line,
                    record_.summary(outcome).dump(
                      -1, ' ', false, Json::error_handler_t::replace)};
  if (course_.is_stopped()) {
    finished.status = stop_status(course_.why());
    finished.line = outcome.stopped + ": " + end.line;
  }
  finish(finished);
}

void CoordinatorState::fail(const std::string& line) {
  if (!course_.is_over() && !course_.makes_outputs())
    finish(Finished{course_.is_stopped() ? stop_status(course_.why()) : 1, line,
                    ""});
}

void CoordinatorState::finish(const Finished& finished) {
  faults_.over();
  course_.finish();
  perform(reshaping_.end());
  leaves_.end();
  ending_.leave_deadline =
    Clock::now() + std::chrono::milliseconds{options_.leave_deadline_ms};
  // Before the roles are: their ends are not deaths.
  if (supervisor_)
    self_->send(supervisor_, finished);
  for_all(Finish{options_.job_id});
  evaluator_.finish(self_, Finish{options_.job_id});
  observers_.tell(finished);
  ending_.outcome = finished;
}

} // namespace troupe
