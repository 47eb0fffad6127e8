#include "actors/coordinator_state.hpp"
#include "actors/saved_weights.hpp"
#include "actors/steady_ms.hpp"
#include "monitoring/metrics.hpp"

#include <algorithm>

// Snapshots and their evaluation, the end of a run, and who is told.

namespace troupe {
namespace {

template <class Self>
void confirm_to_sender(Self* self, const SnapshotTaken& part) {
  self->send(caf::actor_cast<role_actor>(self->current_sender()), part);
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
  if (last && async_ && asked_epoch_ == 0)
    return; // another coordinator asked, which had seen more than this one has
  const bool evaluates = last || job_->is_snapshot_version(whole.version)
                         || epoch_ends_.contains(whole.version);
  if (evaluates)
    evaluator_.evaluate(self_, options_.job_id, whole);
  if (whole.evaluated)
    return;
  checkpoints_.arrived(whole, switch_.now());
  if (last) {
    final_ = std::move(whole);
    if (async_)
      final_->version = steps_; // the name told it apart
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
    final_evaluated_ = true;
  if (!async_ && evaluation.version == end_)
    final_evaluated_ = true;
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
  tell(end);
}

void CoordinatorState::on(const StopRequest& request) {
  if (stage_ != Stage::running)
    return;
  stop_.asked = true;
  stop_.why = request.why;
  stop_.deadline = Clock::now()
                   + std::chrono::milliseconds{options_.stop_deadline_ms};
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

void CoordinatorState::pause() {
  paused_.clear();
  for_all(Pause{fence_});
}

void CoordinatorState::on(const Paused& paused) {
  const bool drains = stage_ == Stage::running && switch_.pending();
  if (!current(paused.fence) || (stage_ != Stage::pausing && !drains))
    return;
  paused_[paused.worker] = paused.next_step;
  if (paused_.size() < epoch_plan_.workers())
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
  if (!digests && !final_)
    final_.emplace();
  if (stage_ == Stage::over || stage_ == Stage::pausing || !final_
      || (!async_ && (commits_.committed() != end_)))
    return;
  stage_ = Stage::concluding;
  if (evaluator_ && !final_evaluated_ && !stop_.asked)
    return;
  if (digests
      && !checkpoints_.is_last_written(*final_, switch_.now(),
                                       stop_.asked ? "stopped" : "end"))
    return;
  RunRecord::Outcome outcome;
  outcome.steps = steps_;
  outcome.leaves_recomputed = commits_.leaves_recomputed();
  outcome.ranks_left_out = commits_.ranks_left_out();
  outcome.max_lead = leases_.max_lead();
  outcome.isa = options_.isa;
  outcome.checkpoints = checkpoints_.written();
  if (digests) {
    outcome.tables = tables_of(*job_, *final_);
    outcome.weights_sha256 = weights_sha256(*job_, *final_);
    outcome.state_sha256 = state_sha256(*job_, *final_);
  }
  for (const auto& [step, end] : epoch_ends_)
    tell(end);
  std::optional<SavedWeights> weights;
  if (!options_.save.empty())
    weights = save_weights(options_.save, weights_of(*job_, *final_),
                           {{"format", "pt"},
                            {"model", job_->options.model},
                            {"step", std::to_string(steps_)}});
  const auto end = end_of_outputs(weights, checkpoints_.last_folder(),
                                  checkpoints_.last_failure());
  Finished finished{end.complete ? 0 : 1, end.line,
                    record_.summary_json(outcome)};
  if (stop_.asked) {
    finished.status = 130;
    finished.line = stop_.why + " after step " + std::to_string(steps_) + " of "
                    + std::to_string(job_->total_steps) + ": " + end.line;
  }
  finish(finished);
}

void CoordinatorState::fail(const std::string& line) {
  if (stage_ != Stage::over)
    finish(Finished{stop_.asked ? 130 : 1, line, ""});
}

void CoordinatorState::finish(const Finished& finished) {
  faults_.over();
  stage_ = Stage::over;
  perform(reshaping_.end());
  leave_deadline_ = Clock::now()
                    + std::chrono::milliseconds{options_.leave_deadline_ms};
  for_all(Finish{options_.job_id});
  evaluator_.finish(self_, Finish{options_.job_id});
  if (supervisor_)
    self_->send(supervisor_, finished);
  tell(finished);
  outcome_ = finished;
}

void CoordinatorState::drop_observer(const caf::strong_actor_ptr& who) {
  std::erase_if(observers_, [&](const observer_actor& x) {
    return caf::actor_cast<caf::strong_actor_ptr>(x) == who;
  });
}

void CoordinatorState::leave() {
  // Of one that took over nobody may know yet.
  const bool found = supervised_ || options_.term == 1;
  const bool alone = present_.empty() && !supervisor_ && observers_.empty()
                     && found;
  if (!alone && Clock::now() <= leave_deadline_)
    return;
  write_end();
  self_->quit();
}

void CoordinatorState::on(const Attach& attach) {
  if (attach.supervises) {
    supervisor_ = caf::actor_cast<supervisor_actor>(self_->current_sender());
    supervised_ = true;
    self_->monitor(supervisor_);
    if (outcome_)
      self_->send(supervisor_, *outcome_);
    return;
  }
  auto observer = caf::actor_cast<observer_actor>(self_->current_sender());
  self_->monitor(observer);
  observers_.push_back(observer);
  if (options_.term > 1 && !options_.past) // that line came before it did
    self_->send(observer, Note{back_line(options_.term)});
  if (exporter_)
    self_->send(observer,
                Note{"metrics: http://" + exporter_->address() + "/metrics"});
  for (const auto& line : options_.first_notes)
    self_->send(observer, Note{line});
  if (outcome_)
    self_->send(observer, *outcome_);
}

void CoordinatorState::on(const RoleDied& died) {
  metrics_.restarts.add();
  watch_.restarted(died.role);
  journal_.restarted(died.role, died.how);
  note(died.how);
  if (died.role.kind == RoleKind::worker && stage_ != Stage::over)
    perform(membership_.died(died.role, steady_ms()));
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
