#include "actors/coordinator/state.hpp"
#include "actors/process/unix_time.hpp"

// The account of commits and, asynchronously, of leases.

namespace troupe {
namespace {

constexpr auto progress_period = std::chrono::milliseconds{100};

bool eval_is_due(const JobOptions& options, uint64_t data_epoch) {
  return options.eval_every > 0 && data_epoch % options.eval_every == 0;
}

} // namespace

bool CoordinatorState::current(const Fence& fence) const {
  return fence.job != 0 && fence == fence_;
}

/// One of an epoch that is over counts as well: a leaf's loss is the same
/// whoever computes it, and may be known to nobody else.
void CoordinatorState::on(const LeafReport& report) {
  if (report.fence.job != options_.job_id
      || report.fence.epoch < period_epoch_) // it numbers other things
    return;
  record_.exchanged(report.exchange_seconds);
  if (report.computed_twice)
    note(to_string(report.worker)
         + ": a gradient was not finite, and was when it was computed again: "
           "its machine erred, not the model");
  std::vector<CommitBook::Leaf> leaves;
  for (const auto& leaf : report.leaves)
    leaves.push_back({leaf.virtual_rank, leaf.loss_sum, leaf.samples});
  if (!async_)
    committed(report.again ? commits_.again(report.step, leaves)
                           : commits_.leaves(report.step, leaves));
  else if (!report.again)
    for (const auto& leaf : leaves)
      leases_.computed(report.step, leaf);
}

void CoordinatorState::on(const Applied& applied) {
  if (!current(applied.fence))
    return;
  record_.duplicates(applied.owner, present_[applied.owner].incarnation,
                     applied.duplicates);
  record_.sent(applied.sent_bytes, applied.plain_bytes);
  record_.behind(applied.max_behind);
  if (applied.owner.kind == RoleKind::worker)
    faults_.whole({applied.owner}); // it has taken its state
  committed(commits_.applied(owner_key(applied.owner), applied.version));
}

void CoordinatorState::committed(
  const std::vector<CommitBook::Commit>& commits) {
  for (auto commit : commits) {
    if (!async_ && job_->options.backup_workers == 0)
      commit.samples = job_->sampling.step(commit.step).count;
    committed(commit);
  }
}

void CoordinatorState::committed(const CommitBook::Commit& commit) {
  left_out_.committed();
  const auto now = Clock::now();
  touched_ = now;
  steps_ = commit.step + 1;
  record_.committed(commit, now);
  journal_.committed(commit.step);
  for (const auto& row : record_.take_recovered())
    journal_.recovery(row);
  metrics_.steps.add();
  metrics_.samples.add(commit.samples);
  const auto per_epoch = job_->sampling.steps_per_epoch();
  const auto data_epoch = commit.step / per_epoch + 1;
  metrics_.data_epoch.set(static_cast<double>(data_epoch));
  const auto loss = commit.loss.value_or(unknown_loss);
  if (commit.loss)
    metrics_.loss.set(loss);
  metrics_.step_seconds.observe(record_.seconds_of_last_step());
  watch_.committed(commit.step, record_.seconds_of_last_step());
  if (options_.page)
    options_.page->add_point({unix_ms(), steps_, record_.samples(), loss});
  metrics_.last_commit.set(unix_seconds());
  if (steps_ % per_epoch == 0 || steps_ == course_.end())
    data_epoch_ended((steps_ + per_epoch - 1) / per_epoch);
  const auto every = options_.log_every;
  if (now - shown_ >= progress_period || steps_ == course_.end()
      || (every > 0 && steps_ % every == 0)) {
    shown_ = now;
    Progress progress{steps_, course_.end(), loss, record_.samples_per_second(),
                      record_.samples_per_second()
                        / job_->options.global_batch};
    observers_.tell(progress);
    if (supervisor_)
      self_->send(supervisor_, progress);
  }
  if (steps_ == course_.end())
    conclude_if_ready();
  look_at_checkpoints();
  switch_if_drained();
}

void CoordinatorState::data_epoch_ended(uint64_t data_epoch) {
  const auto epoch = record_.take_data_epoch();
  DataEpochEnd end{
    data_epoch, steps_, epoch.loss, epoch.samples_per_second, {}};
  // What there was to evaluate on the way went to the coordinator before.
  const bool on_the_way =
    !options_.past
    && (job_->is_snapshot_version(steps_)
        || (async_ && eval_is_due(job_->options, data_epoch)));
  if (!evaluator_ || (steps_ != course_.end() && !on_the_way)) {
    tell(end);
    return;
  }
  data_epoch_ends_[steps_] = end;
  if (async_ && steps_ != course_.end())
    for_all(SnapshotRequest{fence_, steps_});
  if (auto done = evaluations_.find(steps_); done != evaluations_.end())
    show_evaluation(done->second);
}

void CoordinatorState::on(const LeaseRequest& request) {
  if (!current(request.fence))
    return;
  leases_.ask(request.worker.index, request.count);
  hand_out_leases();
}

void CoordinatorState::hand_out_leases() {
  for (auto& [worker, granted] : leases_.hand_out())
    self_->send(
      caf::actor_cast<worker_actor>(present_[{RoleKind::worker, worker}].actor),
      LeaseGrant{fence_, std::move(granted)});
}

void CoordinatorState::on(const LeaseApplied& applied) {
  if (!current(applied.fence))
    return;
  touched_ = Clock::now();
  record_.duplicates(applied.shard, present_[applied.shard].incarnation,
                     applied.duplicates);
  if (auto commit = leases_.applied(applied.lease, applied.shard.index, steps_))
    committed(*commit);
  hand_out_leases();
  snapshot_if_done();
}

void CoordinatorState::on(const LeaseRefused& refused) {
  if (!current(refused.fence))
    return;
  record_.refused_stale();
  leases_.refused(refused.lease);
  hand_out_leases();
}

void CoordinatorState::on(const StepShares& shares) {
  if (current(shares.fence))
    committed(commits_.made_of(shares.step, shares.shares));
}

void CoordinatorState::snapshot_if_done() {
  if (!async_ || !leases_.done() || fence_.job == 0)
    return;
  const bool first = !course_.asked_last();
  if (!course_.ask_last(fence_.epoch, steps_))
    return;
  if (first)
    snapshots_.again(final_async_version());
  for_all(SnapshotRequest{fence_, final_async_version()});
}

uint64_t CoordinatorState::final_version() const {
  return async_ ? final_async_version() : course_.end();
}

} // namespace troupe
