#include "actors/coordinator/coordinator.hpp"

#include "actors/coordinator/evaluator.hpp"
#include "actors/coordinator/state.hpp"
#include "actors/job/first_period.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/job/stage_mesh.hpp"
#include "actors/journal/history.hpp"
#include "actors/process/steady_ms.hpp"
#include "monitoring/metrics.hpp"

#include <algorithm>

// Which message goes where, and the tick. state.hpp says which file has which
// handler.

namespace troupe {
namespace {

using Clock = CoordinatorState::Clock;

constexpr auto tick_period = std::chrono::milliseconds{100};

std::vector<RoleId> members_of(const Plan& plan) {
  std::vector<RoleId> out;
  for (const auto& role : plan.roles)
    if (is_member_kind(role.role.kind))
      out.push_back(role.role);
  return out;
}

/// Whether slice 0's replicas decide on what steps are made of, or on scalars,
/// and write that down; stages and tensor members find the same scalars again.
bool decides(const Job& job) {
  return !has_model_part(job.plan.owner_kind)
         && (!rounds_of(job.options).empty() || job.options.backup_workers > 0);
}

Membership::Options
membership_options(const Job& job, const EpochPlan& plan,
                   std::function<std::set<RoleId>()> awaited,
                   std::function<bool()> may_begin,
                   std::function<bool()> starts_roles,
                   std::function<uint64_t(RoleId)> silent_ms,
                   const JobHistory* past) {
  Membership::Options options;
  options.may_begin = std::move(may_begin);
  options.starts_roles = std::move(starts_roles);
  options.silent_ms = std::move(silent_ms);
  options.awaited = std::move(awaited);
  options.viable = [&plan](const std::set<RoleId>& present) {
    return plan.viable(present);
  };
  options.paired = job.plan.paired;
  options.join_deadline_ms = job.options.deadlines.join_ms;
  options.busy_seal_deadline_ms =
    static_cast<uint64_t>(pass_patience(job.options).count());
  options.roles = members_of(job.plan);
  if (past) {
    options.epoch = past->epoch;
    options.roles.insert(options.roles.end(), past->joined.begin(),
                         past->joined.end());
    std::erase_if(options.roles,
                  [&](RoleId role) { return past->left.contains(role); });
    for (const auto& [role, incarnation] : past->members)
      if (!past->left.contains(role))
        options.gather.insert(role);
  }
  return options;
}

SilenceWatch::Options silence_options(const Job& job,
                                      const CoordinatorOptions& options) {
  auto out = options.silence;
  if (job.options.deadlines.loss_ms > 0)
    out.min_ms = out.max_ms = job.options.deadlines.loss_ms;
  if (!job.options.processes)
    out.min_ms = out.max_ms = options.actor_silence_deadline_ms;
  out.tick_ms = tick_period.count();
  return out;
}

Reshaping::Options reshaping_options(const Job& job, uint32_t min_workers) {
  Reshaping::Options options;
  options.min_workers = std::max(1u, min_workers);
  options.roles = members_of(job.plan);
  options.max_workers = job.options.virtual_ranks;
  options.chain = job.options.chain;
  options.join_deadline_ms = job.options.deadlines.join_ms;
  for (const auto& slice : job.plan.slices)
    options.slice_bytes.push_back(slice.bytes());
  const bool paired = job.plan.paired;
  const auto computing = job.plan.computing();
  if (job.plan.owner_kind != RoleKind::shard || paired || job.plan.served)
    options.fixed_workers = "strategy " + to_string(job.options.strategy)
                            + " has the "
                            + (computing == RoleKind::stage    ? "stages"
                               : computing == RoleKind::tensor ? "members"
                               : paired                        ? "workers"
                                                               : "replicas")
                            + " of its plan and no others";
  if (!job.plan.served)
    options.fixed_slices = options.fixed_workers;
  if (paired || job.plan.served
      || (job.plan.owner_kind != RoleKind::shard && !job.options.processes))
    options.needed_workers = options.fixed_workers;
  if (options.fixed_workers.empty() && job.options.backup_workers > 0)
    options.fixed_workers = options.needed_workers =
      "--backup-workers counts on the workers that the run began with";
  return options;
}

} // namespace

CoordinatorState::CoordinatorState(coordinator_actor::pointer self,
                                   std::shared_ptr<const Job> job, JobData data,
                                   CoordinatorOptions options,
                                   std::shared_ptr<MetricExporter> exporter)
  : self_(self),
    job_(std::move(job)),
    data_(std::move(data)),
    options_(std::move(options)),
    registry_(std::make_shared<MetricRegistry>()),
    exporter_(std::move(exporter)),
    async_(hands_out_leases(*job_, first_period(*job_))),
    switch_(first_period(*job_), job_->options.virtual_ranks),
    metrics_(*registry_),
    journal_(options_.page ? options_.page->shown(options_.journal)
                           : options_.journal,
             options_.term),
    epoch_plan_(job_->plan, {.min_workers = options_.min_workers,
                             .decides = decides(*job_)}),
    reshaping_(reshaping_options(*job_, options_.min_workers),
               epoch_plan_.chains()),
    joining_({.claim_ms = job_->options.deadlines.join_ms}, steady_ms()),
    membership_(
      membership_options(
        *job_, epoch_plan_,
        [this] { return epoch_plan_.awaited(seals_, known()); },
        [this] { return has_readers(); },
        [this] { return static_cast<bool>(supervisor_); },
        [this](RoleId role) { return silence_.silent_ms(role, steady_ms()); },
        options_.past.get()),
      clock_.ms()),
    commits_(
      job_->options.virtual_ranks,
      static_cast<uint32_t>(job_->plan.of_kind(job_->plan.owner_kind).size()),
      job_->options.backup_workers > 0),
    leases_(job_->plan, job_->sampling,
            {.steps = job_->total_steps,
             .virtual_ranks = job_->options.virtual_ranks,
             .staleness = job_->options.staleness,
             .goes_on = job_->beginning != nullptr}),
    faults_(self, options_.job_id),
    snapshots_(*job_),
    record_(job_),
    steps_(job_->first_step()),
    course_(job_->total_steps),
    silence_(silence_options(*job_, options_), steady_ms()),
    checkpoints_(self, job_, options_.checkpoints, options_.data_fingerprint,
                 *registry_, *options_.disk, checkpoint_calls()),
    devices_(options_.past && options_.past->devices > 0
               ? options_.past->devices
               : mesh_of(job_->options).members()),
    outputs_(std::make_shared<Executor>("outputs", 1)) {
  commits_.rollback(steps_);
  registry_->gauge(metrics::steps).set(static_cast<double>(job_->total_steps));
  pace_signs();
  if (options_.past)
    resume(*options_.past);
}

coordinator_actor::behavior_type CoordinatorState::make_behavior() {
  self_->set_down_handler([this](const caf::down_msg& x) { on(x); });
  self_->set_error_handler([](caf::scheduled_actor*, caf::error&) {});
  self_->set_exit_handler([this](const caf::exit_msg& x) {
    write_end();
    self_->quit(x.reason);
  });
  if (data_.eval)
    evaluator_.spawn(self_->system(),
                     RoleContext{job_,
                                 data_,
                                 options_.job_id,
                                 {RoleKind::evaluator, 0},
                                 0,
                                 self_,
                                 registry_},
                     [this] {
                       if (fence_.job != 0) // else who is told with an epoch
                         evaluator_.tell(self_, *job_, fence_, present_);
                     });
  if (exporter_)
    exporter_->attach("coordinator", *registry_);
  touched_ = Clock::now();
  self_->delayed_send(self_, tick_period, caf::tick_atom_v);
  return {
    [this](const Hello& x) { return on(x); },
    [this](const Join& x) { on(x); },
    [this](const Sealed& x) { on(x); },
    [this](const LeafReport& x) { on(x); },
    [this](const Applied& x) { on(x); },
    [this](const LeaseRequest& x) { on(x); },
    [this](const LeaseApplied& x) { on(x); },
    [this](const LeaseRefused& x) { on(x); },
    [this](const StepShares& x) { on(x); },
    [this](const SwitchConsistency& x) { return on(x); },
    [this](const InjectFault& x) { return on(x); },
    [this](const FaultStruck& x) { faults_.struck(x); },
    [this](const ReshapeJob& x) { return on(x); },
    [this](const LeaveRequest& x) { return on(x); },
    [this](const EpochPause& x) {
      if (x.fence.job == options_.job_id)
        record_.paused(x.fence.epoch, x.role, x.seconds);
    },
    [this](const SnapshotSlice& x) { on(x); },
    [this](const RowSnapshot& x) { on(x); },
    [this](const Paused& x) { on(x); },
    [this](const Trouble& x) { on(x); },
    [this](const LinkLost& x) { on(x); },
    [this](const CaughtUp& x) { on(x); },
    [this](const MetricsReport& x) { on(x); },
    [this](const Evaluation& x) { on(x); },
    [this](const Spreads& x) {
      if (x.job == options_.job_id)
        observers_.tell(x);
    },
    [this](const Attach& x) { on(x); },
    [this](const Detach&) { observers_.drop(self_->current_sender()); },
    [this](const RoleDied& x) { on(x); },
    [this](const GiveUp& x) { fail(x.line); },
    [this](const RoleGone& x) { return on(x); },
    [this](const Remains& x) { return on(x); },
    [this](const StopRequest& x) { on(x); },
    [](const Completion& x) { x.then(); },
    [this](caf::tick_atom) { on_tick(); },
  };
}

/// How long a step may wait for samples of readers: then its workers say so,
/// and end.
std::chrono::milliseconds CoordinatorState::patience_with_readers() const {
  constexpr uint64_t to_say_so_ms = 10'000;
  const auto& access = job_->options.data_access;
  return std::chrono::milliseconds{
    access.readers == 0 ? 0
                        : uint64_t{1'000} * access.timeout_s + to_say_so_ms};
}

/// Whoever is to join may take as long as it was given.
std::chrono::milliseconds CoordinatorState::stall_deadline() const {
  const std::chrono::milliseconds usual{job_->options.deadlines.step_ms};
  const std::chrono::milliseconds to_join{
    begun_ ? 0 : job_->options.deadlines.join_ms};
  return std::max(usual, patience_with_readers()) + to_join;
}

void CoordinatorState::on_tick() {
  self_->delayed_send(self_, tick_period, caf::tick_atom_v);
  if (course_.is_over()) {
    leave();
    return;
  }
  const auto now = Clock::now();
  skip_pause(now);
  skip_seals(now);
  write_commits();
  if (!observers_.empty())
    for (const auto& from : {options_.journal_notes, options_.notes})
      std::ranges::for_each(from->take(), [this](auto& x) { note(x); });
  if (gone_) // nobody is there, and nobody awaited
    return;
  begin_without_all();
  watch_silence(now); // first: a pause of this process is nobody's silence
  perform(membership_.tick(clock_.ms()));
  faults_.tick(now);
  perform(reshaping_.tick(clock_.ms()));
  look_at_leaves();
  look_at_checkpoints();
  if (std::exchange(renews_, false)) {
    leave_out_unlinked();
    renew("a link has to be made again");
  }
  look_at_joining();
  if (course_.is_over())
    return;
  metrics_.recomputed_so_far(commits_.leaves_recomputed());
  if (watch_.is_due())
    look_at_waits();
  if (stops_late(now))
    fail(course_.why()
         + (begun_ ? " after step " + std::to_string(steps_)
                       + ": nothing was saved, the roles did not stop in time"
                   : " before the first step: nothing was saved"));
  else if (!course_.makes_outputs() && now - touched_ > stall_deadline())
    fail("no step was committed for "
         + std::to_string(stall_deadline().count() / 1000) + " s after step "
         + std::to_string(steps_) + ": "
         + (watch_.reason().empty() ? "" : watch_.reason() + "; ")
         + "look at troupe's logs (--log-dir); where a step may take longer, "
           "raise --step-deadline-ms");
}

coordinator_actor spawn_coordinator(caf::actor_system& system,
                                    std::shared_ptr<const Job> job,
                                    JobData data, CoordinatorOptions options,
                                    std::shared_ptr<MetricExporter> exporter) {
  return system.spawn<coordinator_actor::stateful_impl<CoordinatorState>>(
    std::move(job), std::move(data), std::move(options), std::move(exporter));
}

} // namespace troupe
