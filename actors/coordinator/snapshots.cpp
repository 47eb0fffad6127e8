#include "actors/coordinator/state.hpp"
#include "monitoring/metrics.hpp"

#include <utility>

// Whole versions from the slices that members send: evaluated, written down as
// checkpoints, or what the run ends with.

namespace troupe {
namespace {

template <class Self>
void confirm_to_sender(Self* self, const SnapshotTaken& part) {
  self->send(caf::actor_cast<role_actor>(self->current_sender()), part);
}

} // namespace

void CoordinatorState::on(const SnapshotSlice& slice) {
  heard_sender(); // other signs of life wait behind a large state
  if (slice.job != options_.job_id || course_.is_over())
    return;
  touched_ = Clock::now();
  confirm_to_sender(self_, {slice.job, slice.version, slice.slice, 0});
  for (auto& whole : snapshots_.add(slice))
    snapshot_is_whole(std::move(whole));
}

void CoordinatorState::on(const RowSnapshot& chunk) {
  heard_sender();
  if (chunk.job != options_.job_id || course_.is_over())
    return;
  touched_ = Clock::now();
  confirm_to_sender(self_, {chunk.job, chunk.version, chunk.slice, chunk.part});
  for (auto& whole : snapshots_.add(chunk))
    snapshot_is_whole(std::move(whole));
}

void CoordinatorState::snapshot_is_whole(Snapshot whole) {
  touched_ = Clock::now();
  const bool last = whole.version == final_version();
  if (last && async_ && !course_.asked_last())
    return; // another coordinator asked, which had seen more than this one has
  const bool evaluates = last || job_->is_snapshot_version(whole.version)
                         || data_epoch_ends_.contains(whole.version);
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
  if (course_.is_running() && fence_.job != 0 && steps_ < course_.end())
    checkpoints_.look(steps_, async_);
}

void CoordinatorState::on(Evaluation evaluation) {
  if (evaluation.job != options_.job_id)
    return;
  touched_ = Clock::now();
  if (evaluation.version == final_version())
    course_.evaluated();
  if (async_ && evaluation.version == final_async_version())
    evaluation.version = steps_;
  record_.evaluated(evaluation);
  if (const auto line = loss_watch_.evaluated(evaluation); !line.empty())
    note(line);
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
  auto waiting = data_epoch_ends_.find(evaluation.version);
  if (waiting == data_epoch_ends_.end())
    return;
  auto end = waiting->second;
  data_epoch_ends_.erase(waiting);
  end.evaluation = evaluation.measures;
  tell(end);
}

} // namespace troupe
