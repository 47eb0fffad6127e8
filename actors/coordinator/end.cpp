#include "actors/coordinator/saved_weights.hpp"
#include "actors/coordinator/state.hpp"
#include "actors/process/steady_ms.hpp"
#include "monitoring/metrics.hpp"

#include <algorithm>

// Snapshots and their evaluation, the end of a run, and who is told.

namespace troupe {
namespace {

template <class Self>
void confirm_to_sender(Self* self, const SnapshotTaken& part) {
  self->send(caf::actor_cast<role_actor>(self->current_sender()), part);
}

/// The step of the weights in a file; 0 where there are none, or none is told.
uint64_t step_saved_in(const std::string& path) {
  try {
    const auto metadata = read_safetensors_metadata(path);
    const auto step = metadata.find("step");
    return step == metadata.end() ? 0 : std::stoull(step->second);
  } catch (const std::exception&) {
    return 0;
  }
}

} // namespace

void CoordinatorState::on(const SnapshotSlice& slice) {
  heard_sender(); // other signs of life wait behind a large state
  if (slice.job != options_.job_id || stage_ == Stage::over)
    return;
  touched_ = Clock::now();
  confirm_to_sender(self_, {slice.job, slice.version, slice.slice, 0});
  for (auto& whole : snapshots_.add(slice))
    snapshot_is_whole(std::move(whole));
}

void CoordinatorState::on(const RowSnapshot& chunk) {
  heard_sender();
  if (chunk.job != options_.job_id || stage_ == Stage::over)
    return;
  touched_ = Clock::now();
  confirm_to_sender(self_, {chunk.job, chunk.version, chunk.slice, chunk.part});
  for (auto& whole : snapshots_.add(chunk))
    snapshot_is_whole(std::move(whole));
}

void CoordinatorState::snapshot_is_whole(Snapshot whole) {
  touched_ = Clock::now();
  const bool last = whole.version == final_version();
  if (last && async_ && ending_.asked_epoch == 0)
    return; // another coordinator asked, which had seen more than this one has
  const bool evaluates = last || job_->is_snapshot_version(whole.version)
                         || epoch_ends_.contains(whole.version);
  if (evaluates)
    evaluator_.evaluate(self_, options_.job_id, whole);
  if (whole.evaluated)
    return;
  checkpoints_.arrived(whole, switch_.now());
  if (last) {
    ending_.last = std::move(whole);
    if (async_)
      ending_.last->version = steps_; // the name told it apart
    conclude_if_ready();
  }
}

CheckpointDesk::Calls CoordinatorState::checkpoint_calls() {
  return {[this](uint64_t version) {
            for_all(SnapshotRequest{fence_, version});
          },
          [this](const std::string& line) { note(line); },
          [this] {
            touched_ = Clock::now();
            look_at_checkpoints();
            conclude_if_ready();
          }};
}

void CoordinatorState::look_at_checkpoints() {
  if (stage_ == Stage::running && fence_.job != 0 && steps_ < end_)
    checkpoints_.look(steps_, async_);
}

void CoordinatorState::on(Evaluation evaluation) {
  if (evaluation.job != options_.job_id)
    return;
  touched_ = Clock::now();
  if (async_ && evaluation.version == final_async_version())
    ending_.last_evaluated = true;
  if (!async_ && evaluation.version == end_)
    ending_.last_evaluated = true;
  if (async_ && evaluation.version == final_async_version())
    evaluation.version = steps_;
  record_.evaluated(evaluation);
  std::vector<std::pair<std::string, double>> measures;
  for (const auto& measure : evaluation.measures)
    measures.emplace_back(measure.name, measure.value);
  journal_.evaluated(evaluation.version, evaluation.samples, measures);
  for (const auto& measure : evaluation.measures)
    for (const auto* gauge :
         {&metrics::evaluation_loss, &metrics::evaluation_accuracy,
          &metrics::evaluation_auc, &metrics::evaluation_perplexity})
      if (gauge->name == "troupe_evaluation_" + measure.name)
        registry_->gauge(*gauge).set(measure.value);
  evaluations_[evaluation.version] = evaluation;
  show_evaluation(evaluation);
  conclude_if_ready();
}

void CoordinatorState::show_evaluation(const Evaluation& evaluation) {
  auto waiting = epoch_ends_.find(evaluation.version);
  if (waiting == epoch_ends_.end())
    return;
  auto end = waiting->second;
  epoch_ends_.erase(waiting);
  end.evaluation = evaluation.measures;
  observers_.tell(end);
}

bool CoordinatorState::is_ending() const {
  return stage_ != Stage::running || steps_ >= end_ || ending_.asked_epoch != 0;
}

/// Whoever hears the signal says so, most often several: the first one counts.
void CoordinatorState::on(const StopRequest& request) {
  if (ending_.stop.asked || stage_ == Stage::over)
    return;
  const bool ended = is_ending();
  ending_.stop.asked = true;
  ending_.stop.why = request.why;
  ending_.stop.since = Clock::now();
  leaves_.end();
  if (ended) { // all steps were made: only an evaluation is no longer awaited
    conclude_if_ready();
    return;
  }
  stage_ = Stage::pausing;
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
  if (!ending_.stop.asked || stage_ == Stage::concluding)
    return false;
  if (!begun_)
    return now > ending_.stop.since + milliseconds{options_.stop_deadline_ms};
  const std::chrono::duration<double> steps{3 * record_.seconds_of_last_step()};
  return now - std::max(ending_.stop.since, touched_)
         > milliseconds{options_.stop_patience_ms} + steps;
}

void CoordinatorState::skip_pause(Clock::time_point now) {
  const auto pause = clock_.take_pause(now);
  for (auto* moment :
       {&joined_, &touched_, &ending_.stop.since, &ending_.leave_deadline})
    *moment += pause;
  for (auto& [role, since] : lost_)
    since += pause;
}

void CoordinatorState::pause() {
  paused_.clear();
  for_all(Pause{fence_});
}

void CoordinatorState::on(const Paused& paused) {
  if (!current(paused.fence))
    return;
  if (stage_ == Stage::ending) { // the wish to pause reached it once more
    if (const auto worker = present_.find(paused.worker);
        worker != present_.end())
      self_->send(worker->second.actor, EndAt{fence_, end_});
    return;
  }
  const bool drains = stage_ == Stage::running && switch_.pending();
  if (stage_ != Stage::pausing && !drains)
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
    for (const auto& head : epoch_plan_.restorable())
      last = std::max(last, head.newest);
  if (drains) {
    drained_at(last);
    return;
  }
  end_ = last;
  snapshots_.again(end_); // it may have been shown as the end of a data epoch
  stage_ = Stage::ending;
  for_all(EndAt{fence_, end_});
  conclude_if_ready();
}

void CoordinatorState::conclude_if_ready() {
  const bool digests = job_->options.digests;
  if (!digests && !ending_.last)
    ending_.last.emplace();
  if (stage_ == Stage::over || stage_ == Stage::pausing || !ending_.last
      || (!async_ && (commits_.committed() != end_)))
    return;
  stage_ = Stage::concluding;
  if (evaluator_ && !ending_.last_evaluated && !ending_.stop.asked)
    return;
  if (digests
      && !checkpoints_.is_last_written(*ending_.last, switch_.now(),
                                       ending_.stop.asked ? "stopped" : "end"))
    return;
  RunRecord::Outcome outcome;
  outcome.steps = steps_;
  outcome.leaves_recomputed = commits_.leaves_recomputed();
  outcome.ranks_left_out = commits_.ranks_left_out();
  outcome.max_lead = leases_.max_lead();
  outcome.isa = options_.isa;
  outcome.numeric_class = numeric_class_;
  outcome.checkpoints = checkpoints_.written();
  if (digests) {
    outcome.tables = tables_of(*job_, *ending_.last);
    outcome.weights_sha256 = weights_sha256(*job_, *ending_.last);
    outcome.state_sha256 = state_sha256(*job_, *ending_.last);
  }
  for (const auto& [step, end] : epoch_ends_)
    observers_.tell(end);
  std::optional<SavedWeights> weights;
  if (!options_.save.empty()) {
    // A run that is ended early must not leave less than there was.
    const bool goes_on = job_->first_step() > 0
                         || record_.counts(commits_).rolled_back > 0;
    const auto newer =
      ending_.stop.asked && goes_on ? step_saved_in(options_.save) : 0;
    const bool aside = newer > steps_;
    weights = save_weights(
      options_.save + (aside ? ".step-" + std::to_string(steps_) : ""),
      weights_of(*job_, *ending_.last), weights_metadata(*job_, steps_));
    if (aside)
      weights->line += " (" + options_.save + " has step "
                       + std::to_string(newer) + ')';
  }
  const auto end = end_of_outputs(weights, checkpoints_.last_folder(),
                                  checkpoints_.last_failure());
  Finished finished{end.complete ? 0 : 1, end.line,
                    record_.summary_json(outcome)};
  if (ending_.stop.asked) {
    finished.status = stop_status(ending_.stop.why);
    finished.line = ending_.stop.why + " after step " + std::to_string(steps_)
                    + " of " + std::to_string(job_->total_steps) + ": "
                    + end.line;
  }
  finish(finished);
}

void CoordinatorState::fail(const std::string& line) {
  if (stage_ != Stage::over)
    finish(Finished{ending_.stop.asked ? stop_status(ending_.stop.why) : 1,
                    line, ""});
}

void CoordinatorState::finish(const Finished& finished) {
  faults_.over();
  stage_ = Stage::over;
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

void CoordinatorState::leave() {
  // Nobody may know yet of a coordinator that took over.
  const bool found = ending_.supervised || options_.term == 1;
  const bool alone = present_.empty() && !supervisor_ && observers_.empty()
                     && found;
  if (!alone && Clock::now() <= ending_.leave_deadline)
    return;
  write_end();
  self_->quit();
}

void CoordinatorState::on(const Attach& attach) {
  if (attach.supervises) {
    supervisor_ = caf::actor_cast<supervisor_actor>(self_->current_sender());
    ending_.supervised = true;
    self_->monitor(supervisor_);
    if (ending_.outcome)
      self_->send(supervisor_, *ending_.outcome);
    return;
  }
  auto observer = caf::actor_cast<observer_actor>(self_->current_sender());
  self_->monitor(observer);
  observers_.add(observer);
  if (options_.term > 1 && !options_.past) // that line came before it did
    self_->send(observer, Note{back_line(options_.term)});
  if (exporter_)
    self_->send(observer, Note{"metrics: " + exporter_->url()});
  for (const auto& line : options_.first_notes)
    self_->send(observer, Note{line});
  if (ending_.outcome)
    self_->send(observer, *ending_.outcome);
}

void CoordinatorState::on(const RoleDied& died) {
  metrics_.restarts.add();
  watch_.restarted(died.role);
  journal_.restarted(died.role, died.how);
  note(died.how);
  if (auto known = present_.find(died.role);
      joining_.died(died) && known != present_.end())
    lose(died.role, known->second.incarnation);
  look_at_joining();
  if (died.role.kind == RoleKind::worker && stage_ != Stage::over)
    perform(membership_.died(died.role, clock_.ms()));
}

void CoordinatorState::on(const MetricsReport& report) {
  silence_.heard(report.role, steady_ms());
  if (report.samples.empty())
    return;
  if (report.role.kind == RoleKind::shard)
    for (const auto& sample : report.samples)
      if (sample.name == metrics::shard_busy_seconds_total.name)
        loads_.busy(report.role.index, sample.value, steady_ms());
  if (exporter_)
    exporter_->publish(to_string(report.role), report.samples);
  if (report.peak_memory_bytes > 0)
    record_.peak_memory(report.role, report.peak_memory_bytes);
}

} // namespace troupe
