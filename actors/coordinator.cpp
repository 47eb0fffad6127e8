#include "actors/coordinator.hpp"

#include "actors/caf_metrics.hpp"
#include "actors/evaluator.hpp"
#include "actors/run_record.hpp"
#include "actors/snapshot_book.hpp"
#include "kernels/error.hpp"
#include "monitoring/names.hpp"
#include "strategies/commit_book.hpp"
#include "strategies/restoration.hpp"

#include <algorithm>
#include <chrono>
#include <set>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto tick_period = std::chrono::milliseconds{100};
constexpr auto progress_period = std::chrono::milliseconds{100};

uint64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
           Clock::now().time_since_epoch())
    .count();
}

struct CoordinatorMetrics {
  explicit CoordinatorMetrics(MetricRegistry& registry)
    : registry(registry),
      steps(registry.counter(metrics::steps_committed_total)),
      samples(registry.counter(metrics::samples_committed_total)),
      loss(registry.gauge(metrics::training_loss)),
      last_commit(registry.gauge(metrics::last_commit_timestamp_seconds)),
      step_seconds(registry.histogram(metrics::step_duration_seconds)),
      restarts(registry.counter(metrics::restarts_total)),
      epoch(registry.gauge(metrics::membership_epoch)),
      recomputed(registry.counter(metrics::leaves_recomputed_total)) {
  }
  MetricRegistry& registry;
  Counter& steps;
  Counter& samples;
  Gauge& loss;
  Gauge& last_commit;
  Histogram& step_seconds;
  Counter& restarts;
  Gauge& epoch;
  Counter& recomputed;
};

Membership::Options membership_options(const Job& job) {
  Membership::Options options;
  options.join_deadline_ms = job.options.join_deadline_ms;
  for (const auto& role : job.plan.roles)
    if (role.role.kind == RoleKind::worker
        || role.role.kind == RoleKind::shard)
      options.roles.push_back(role.role);
  return options;
}

/// Shards beyond the number of slices own nothing and apply nothing; they are
/// the last ones.
uint32_t owners_with_slices(const Plan& plan) {
  return *std::max_element(plan.owner.begin(), plan.owner.end()) + 1;
}

/// The run goes through
///
///   running -> pausing -> ending -> concluding -> over
///      |    (Ctrl-C only)    ^
///      +---------------------+   the last step is committed
///
/// and from anywhere to over when it fails.
class CoordinatorState {
public:
  static inline const char* name = "coordinator";

  CoordinatorState(coordinator_actor::pointer self,
                   std::shared_ptr<const Job> job, JobData data,
                   CoordinatorOptions options,
                   std::shared_ptr<MetricExporter> exporter)
    : self_(self),
      job_(std::move(job)),
      data_(std::move(data)),
      options_(std::move(options)),
      exporter_(std::move(exporter)),
      async_(job_->options.synchronisation == Synchronisation::async),
      registry_(std::make_shared<MetricRegistry>()),
      metrics_(*registry_),
      membership_(membership_options(*job_), now_ms()),
      commits_(job_->options.virtual_ranks,
               static_cast<uint32_t>(
                 job_->plan.of_kind(job_->plan.owner_kind).size())),
      leases_(job_->total_steps * job_->options.virtual_ranks,
              owners_with_slices(job_->plan)),
      snapshots_(*job_),
      record_(job_),
      end_(job_->total_steps) {
  }

  coordinator_actor::behavior_type make_behavior() {
    self_->set_down_handler([this](const caf::down_msg& x) { on(x); });
    self_->set_error_handler([](caf::scheduled_actor*, caf::error&) {});
    self_->set_exit_handler([this](const caf::exit_msg& x) {
      self_->quit(x.reason);
    });
    if (data_.eval)
      evaluator_ = spawn_evaluator(
        self_->system(),
        RoleContext{job_, data_, options_.job_id, {RoleKind::evaluator, 0}, 0,
                    self_, registry_});
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
      [this](const SnapshotSlice& x) { on(x); },
      [this](const Paused& x) { on(x); },
      [this](const Trouble& x) {
        if (x.job == options_.job_id)
          fail(x.line);
      },
      [this](const MetricsReport& x) { on(x); },
      [this](const Evaluation& x) { on(x); },
      [this](const Attach& x) { on(x); },
      [this](const Detach&) { drop_observer(self_->current_sender()); },
      [this](const RoleDied& x) { on(x); },
      [this](const GiveUp& x) { fail(x.line); },
      [this](const StopRequest& x) { on(x); },
      [](const Completion& x) { x.then(); },
      [this](caf::tick_atom) { on_tick(); },
    };
  }

private:
  enum class Stage { running, pausing, ending, concluding, over };

  struct Present {
    uint64_t incarnation = 0;
    role_actor actor;
    std::string endpoint;
    Clock::time_point heard;
  };

  // --- joining and epochs ---------------------------------------------------

  caf::result<JobInfo> on(const Hello& hello) {
    if (hello.revision != message_revision)
      return caf::make_error(caf::sec::incompatible_versions,
                             to_string(hello.role)
                               + " is another build of troupe");
    lost_.erase(hello.role);
    return JobInfo{options_.job_id, ++incarnations_, to_json(job_->options)};
  }

  void on(const Join& join) {
    if (join.job != options_.job_id || stage_ == Stage::over)
      return;
    if (!computes_alike(join))
      return;
    auto known = present_.find(join.role);
    if (known != present_.end() && known->second.incarnation >= join.incarnation)
      return;
    if (known != present_.end())
      lose(join.role, known->second.incarnation);
    auto actor = caf::actor_cast<role_actor>(self_->current_sender());
    present_[join.role]
      = {join.incarnation, actor, join.endpoint, Clock::now()};
    self_->monitor(actor);
    perform(membership_.join(join.role, join.incarnation, now_ms()));
  }

  /// Refuses a worker whose bits would differ (PROTOCOL 21).
  bool computes_alike(const Join& join) {
    if (join.role.kind != RoleKind::worker)
      return true;
    if (probe_.empty()) {
      probe_ = join.probe;
      build_ = join.build;
    }
    if (probe_ == join.probe && build_ == join.build)
      return true;
    fail(to_string(join.role) + " computes with " + join.build
         + " and gets other bits than the workers before it (" + build_
         + "): use machines of one kind, or pin --isa");
    return false;
  }

  void on(const caf::down_msg& down) {
    for (const auto& [role, present] : present_)
      if (present.actor.address() == down.source) {
        lose(RoleId{role}, present.incarnation);
        return;
      }
    drop_observer(caf::actor_cast<caf::strong_actor_ptr>(down.source));
    if (supervisor_ && supervisor_.address() == down.source) {
      supervisor_ = nullptr;
      if (stage_ != Stage::over)
        fail("the node supervisor is gone");
    }
  }

  void lose(RoleId role, uint64_t incarnation) {
    present_.erase(role);
    seals_.erase(role);
    if (stage_ == Stage::over)
      return;
    lost_[role] = Clock::now();
    record_.lost(role, Clock::now(), commits_.committed());
    if (async_ && role.kind == RoleKind::worker)
      leases_.worker_lost(role.index);
    fence_ = {};
    perform(membership_.lost(role, incarnation, now_ms()));
  }

  void perform(const Membership::Actions& actions) {
    for (const auto& action : actions)
      std::visit([this](const auto& x) { perform(x); }, action);
  }

  void perform(const Membership::Propose& propose) {
    fence_ = {};
    seals_.clear();
    proposed_ = {options_.job_id, 1, propose.epoch};
    for (auto role : propose.members)
      self_->send(present_[role].actor, Propose{proposed_});
  }

  void perform(const Membership::Activate& activate) {
    fence_ = {options_.job_id, 1, activate.epoch};
    metrics_.epoch.set(static_cast<double>(activate.epoch));
    Activate message{fence_, {}, 0, false, {}};
    std::vector<Restorable> restorable;
    for (const auto& [role, seal] : seals_)
      for (const auto& slice : seal.slices) {
        message.slices.push_back(slice);
        restorable.push_back({slice.oldest, slice.newest});
      }
    for (const auto& [role, present] : present_)
      message.members.push_back({role, present.endpoint});
    if (async_)
      restore_leases();
    else
      restore_steps(message, decide_restoration(restorable));
    if (!begun_) {
      begun_ = true;
      record_.begin(Clock::now());
      touched_ = Clock::now();
    } else {
      record_.resumed(message.rollback);
      metrics_.registry
        .counter(metrics::recoveries_total,
                 {{"kind", message.rollback ? "rollback" : "repair"}})
        .add();
    }
    if (async_)
      hungry_.clear();
    for (const auto& [role, present] : present_)
      self_->send(present.actor, message);
    if (stage_ == Stage::pausing)
      pause();
    else if (stage_ == Stage::ending && end_ != job_->total_steps)
      for_all(EndAt{fence_, end_});
    if (async_ && stage_ != Stage::concluding)
      snapshot_if_done();
  }

  void restore_steps(Activate& message, const Restoration& restoration) {
    message.version = restoration.version;
    message.rollback = restoration.rollback;
    if (!restoration.rollback) {
      committed(commits_.forgive(restoration.version));
      return;
    }
    const auto undone = commits_.rollback(restoration.version);
    record_.rolled_back(restoration.version, undone);
    snapshots_.clear();
    epoch_ends_.clear();
    note("rollback to step " + std::to_string(restoration.version) + ", "
         + std::to_string(undone) + " steps undone: " + restoration.reason);
  }

  /// A shard's set is what all its slices have applied.
  void restore_leases() {
    for (const auto& [role, seal] : seals_) {
      if (role.kind != RoleKind::shard || seal.slices.empty())
        continue;
      std::map<uint64_t, size_t> above;
      auto floor = seal.slices.front().lease_floor;
      for (const auto& slice : seal.slices)
        floor = std::min(floor, slice.lease_floor);
      for (const auto& slice : seal.slices) {
        for (auto lease = floor; lease < slice.lease_floor; ++lease)
          ++above[lease];
        for (auto lease : slice.leases_above)
          ++above[lease];
      }
      LeaseSet applied{floor, {}};
      for (const auto& [lease, slices] : above)
        if (slices == seal.slices.size())
          applied.insert(lease);
      leases_.shard_restored(role.index, applied);
    }
    for (const auto& [role, present] : present_)
      if (role.kind == RoleKind::worker) // they ask again in the new epoch
        leases_.worker_lost(role.index);
  }

  void perform(const Membership::LeaveOut& leave) {
    present_.erase(leave.role);
    fence_ = {};
    replace(leave.role, leave.reason);
  }

  void replace(RoleId role, const std::string& reason) {
    note(to_string(role) + " is left out: " + reason);
    lost_[role] = Clock::now();
    if (supervisor_)
      self_->send(supervisor_, ReplaceRole{role, reason});
  }

  /// Leaves out members that have gone silent, and asks again for those that
  /// are lost and whose replacement has not said hello.
  void watch_silence(Clock::time_point now) {
    const auto limit = std::chrono::milliseconds{options_.silence_deadline_ms};
    for (const auto& [role, present] : std::map{present_})
      if (now - present.heard > limit) {
        const auto incarnation = present.incarnation;
        replace(role, "silent for "
                        + std::to_string(options_.silence_deadline_ms / 1000)
                        + " s");
        lose(role, incarnation);
      }
    for (auto& [role, since] : lost_)
      if (now - since > limit)
        replace(role, "lost and not back");
  }

  void perform(const Membership::Fail& failure) {
    fail(failure.reason);
  }

  void on(const Sealed& sealed) {
    if (sealed.fence != proposed_)
      return;
    auto known = present_.find(sealed.role);
    if (known == present_.end()
        || known->second.incarnation != sealed.incarnation)
      return;
    seals_[sealed.role] = sealed;
    perform(membership_.sealed(sealed.role, sealed.incarnation,
                               sealed.fence.epoch, now_ms()));
  }

  template <class Message>
  void for_all(const Message& message) {
    for (const auto& [role, present] : present_)
      self_->send(present.actor, message);
  }

  // --- commits --------------------------------------------------------------

  bool current(const Fence& fence) const {
    return fence.job != 0 && fence == fence_;
  }

  void on(const LeafReport& report) {
    if (report.fence.job != options_.job_id)
      return;
    if (async_) {
      for (const auto& leaf : report.leaves)
        lease_losses_[report.step] = leaf;
      return;
    }
    std::vector<CommitBook::Leaf> leaves;
    for (const auto& leaf : report.leaves)
      leaves.push_back({leaf.virtual_rank, leaf.loss_sum, leaf.samples});
    committed(commits_.leaves(report.step, leaves));
  }

  void on(const Applied& applied) {
    if (!current(applied.fence))
      return;
    record_.duplicates(applied.owner, present_[applied.owner].incarnation,
                       applied.duplicates);
    committed(commits_.applied(applied.owner.index, applied.version));
  }

  void committed(const std::vector<CommitBook::Commit>& commits) {
    for (auto commit : commits) {
      commit.samples = job_->sampling.step(commit.step).count;
      committed(commit);
    }
  }

  void committed(const CommitBook::Commit& commit) {
    const auto now = Clock::now();
    touched_ = now;
    steps_ = commit.step + 1;
    record_.committed(commit, now);
    metrics_.steps.add();
    metrics_.samples.add(commit.samples);
    metrics_.loss.set(commit.loss);
    metrics_.step_seconds.observe(record_.seconds_of_last_step());
    metrics_.last_commit.set(
      std::chrono::duration<double>(
        std::chrono::system_clock::now().time_since_epoch())
        .count());
    const auto per_epoch = job_->sampling.steps_per_epoch();
    if (steps_ % per_epoch == 0 || steps_ == end_)
      epoch_ended((steps_ + per_epoch - 1) / per_epoch);
    if (now - shown_ >= progress_period || steps_ == end_) {
      shown_ = now;
      Progress progress{steps_, end_, commit.loss,
                        record_.samples_per_second(),
                        record_.samples_per_second()
                          / job_->options.global_batch};
      tell(progress);
      if (supervisor_)
        self_->send(supervisor_, progress);
    }
    if (steps_ == end_)
      conclude_if_ready();
  }

  void epoch_ended(uint64_t data_epoch) {
    EpochEnd end{data_epoch,      steps_,
                 record_.take_epoch_loss(), record_.samples_per_second(),
                 false,           0,
                 0};
    const bool due = evaluator_
                     && (steps_ == end_ || job_->is_snapshot_version(steps_)
                         || (async_ && eval_is_due(data_epoch)));
    if (!due) {
      tell(end);
      return;
    }
    epoch_ends_[steps_] = end;
    if (async_ && steps_ != end_)
      for_all(SnapshotRequest{fence_, steps_});
    if (auto done = evaluations_.find(steps_); done != evaluations_.end())
      show_evaluation(done->second);
  }

  bool eval_is_due(uint64_t data_epoch) const {
    return job_->options.eval_every > 0
           && data_epoch % job_->options.eval_every == 0;
  }

  // --- leases (async) -------------------------------------------------------

  void on(const LeaseRequest& request) {
    if (!current(request.fence))
      return;
    hungry_.erase(request.worker);
    auto granted = leases_.grant(request.worker.index, request.count);
    if (granted.empty()) {
      hungry_.insert(request.worker);
      return;
    }
    self_->send(caf::actor_cast<worker_actor>(present_[request.worker].actor),
                LeaseGrant{fence_, std::move(granted)});
  }

  void on(const LeaseApplied& applied) {
    if (!current(applied.fence))
      return;
    touched_ = Clock::now();
    record_.duplicates(applied.shard, present_[applied.shard].incarnation,
                       applied.duplicates);
    if (leases_.applied(applied.lease, applied.shard.index))
      consumed(applied.lease);
    snapshot_if_done();
  }

  /// V consumed leases count as one step (PROTOCOL 12).
  void consumed(uint64_t lease) {
    auto& leaf = lease_losses_[lease];
    window_.loss += leaf.loss_sum;
    window_.samples += leaf.samples;
    lease_losses_.erase(lease);
    const auto ranks = job_->options.virtual_ranks;
    if (++window_leases_ < ranks)
      return;
    window_.step = steps_;
    if (window_.samples > 0)
      window_.loss /= window_.samples;
    committed(std::exchange(window_, {}));
    window_leases_ = 0;
  }

  void snapshot_if_done() {
    if (!async_ || !leases_.done() || fence_.job == 0
        || stage_ == Stage::over || asked_epoch_ == fence_.epoch)
      return;
    asked_epoch_ = fence_.epoch;
    end_ = steps_;
    if (stage_ == Stage::pausing)
      stage_ = Stage::ending;
    for_all(SnapshotRequest{fence_, final_async_version()});
  }

  /// Told apart from the snapshots of epochs before.
  uint64_t final_async_version() const {
    return job_->total_steps + 1;
  }

  uint64_t final_version() const {
    return async_ ? final_async_version() : end_;
  }

  // --- snapshots and evaluation ---------------------------------------------

  void on(const SnapshotSlice& slice) {
    if (slice.job != options_.job_id || stage_ == Stage::over)
      return;
    auto whole = snapshots_.add(slice);
    if (!whole)
      return;
    touched_ = Clock::now();
    if (evaluator_)
      for (const auto& part : whole->slices)
        self_->send(evaluator_,
                    Evaluate{options_.job_id, whole->version, part.slice,
                             static_cast<uint32_t>(whole->slices.size()),
                             part.values});
    if (whole->version == final_version()) {
      final_ = std::move(whole);
      conclude_if_ready();
    }
  }

  void on(Evaluation evaluation) {
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
    registry_->gauge(metrics::evaluation_loss).set(evaluation.loss);
    registry_->gauge(metrics::evaluation_accuracy).set(evaluation.accuracy);
    evaluations_[evaluation.version] = evaluation;
    show_evaluation(evaluation);
    conclude_if_ready();
  }

  void show_evaluation(const Evaluation& evaluation) {
    auto waiting = epoch_ends_.find(evaluation.version);
    if (waiting == epoch_ends_.end())
      return;
    auto end = waiting->second;
    epoch_ends_.erase(waiting);
    end.evaluated = true;
    end.eval_loss = evaluation.loss;
    end.eval_accuracy = evaluation.accuracy;
    tell(end);
  }

  // --- ending ---------------------------------------------------------------

  void on(const StopRequest& request) {
    if (stage_ != Stage::running)
      return;
    stopped_ = true;
    stop_why_ = request.why;
    stop_deadline_
      = Clock::now() + std::chrono::milliseconds{options_.stop_deadline_ms};
    stage_ = Stage::pausing;
    if (fence_.job == 0)
      return; // the next epoch pauses at once
    if (async_) {
      leases_.close();
      snapshot_if_done();
    } else {
      pause();
    }
  }

  void pause() {
    paused_.clear();
    for_all(Pause{fence_});
  }

  void on(const Paused& paused) {
    if (!current(paused.fence) || stage_ != Stage::pausing)
      return;
    paused_[paused.worker] = paused.next_step;
    if (paused_.size() < job_->plan.of_kind(RoleKind::worker).size())
      return;
    end_ = 0;
    for (const auto& [worker, step] : paused_)
      end_ = std::max(end_, step);
    stage_ = Stage::ending;
    for_all(EndAt{fence_, end_});
    conclude_if_ready();
  }

  void conclude_if_ready() {
    if (stage_ == Stage::over || stage_ == Stage::pausing || !final_
        || (!async_ && (commits_.committed() != end_)))
      return;
    stage_ = Stage::concluding;
    if (evaluator_ && !final_evaluated_ && !stopped_)
      return;
    RunRecord::Outcome outcome;
    outcome.steps = steps_;
    outcome.leaves_recomputed = commits_.leaves_recomputed();
    outcome.isa = options_.isa;
    auto weights = weights_of(*job_, *final_);
    outcome.weights_sha256 = tensors_sha256(weights);
    outcome.state_sha256 = tensors_sha256(state_of(*job_, *final_));
    std::string saved = "nothing was saved (no --save)";
    if (!options_.save.empty()) {
      try {
        write_safetensors(options_.save, weights,
                          {{"format", "pt"},
                           {"model", job_->options.model},
                           {"step", std::to_string(steps_)}});
        saved = "weights saved to " + options_.save;
      } catch (const InputError& failure) {
        fail(failure.what());
        return;
      }
    }
    for (const auto& [step, end] : epoch_ends_)
      tell(end);
    Finished finished{0, saved, record_.summary_json(outcome)};
    if (stopped_) {
      finished.status = 130;
      finished.line = stop_why_ + " after step " + std::to_string(steps_)
                      + " of " + std::to_string(job_->total_steps) + ": "
                      + saved;
    }
    finish(finished);
  }

  void fail(const std::string& line) {
    if (stage_ != Stage::over)
      finish(Finished{stopped_ ? 130 : 1, line, ""});
  }

  void finish(const Finished& finished) {
    stage_ = Stage::over;
    leave_deadline_
      = Clock::now() + std::chrono::milliseconds{options_.leave_deadline_ms};
    for_all(Finish{options_.job_id});
    if (evaluator_)
      self_->send(evaluator_, Finish{options_.job_id});
    if (supervisor_)
      self_->send(supervisor_, finished);
    tell(finished);
    outcome_ = finished;
  }

  // --- observers, supervision, metrics --------------------------------------

  void drop_observer(const caf::strong_actor_ptr& who) {
    std::erase_if(observers_, [&](const observer_actor& x) {
      return caf::actor_cast<caf::strong_actor_ptr>(x) == who;
    });
  }

  /// Ends when everybody elsewhere has read how the run ended.
  void leave() {
    const bool alone = present_.empty() && !supervisor_ && observers_.empty();
    if (alone || Clock::now() > leave_deadline_)
      self_->quit();
  }

  template <class Message>
  void tell(const Message& message) {
    for (const auto& observer : observers_)
      self_->send(observer, message);
  }

  void note(const std::string& line) {
    tell(Note{line});
  }

  void on(const Attach& attach) {
    if (attach.supervises) {
      supervisor_
        = caf::actor_cast<supervisor_actor>(self_->current_sender());
      self_->monitor(supervisor_);
      if (outcome_)
        self_->send(supervisor_, *outcome_);
      return;
    }
    auto observer = caf::actor_cast<observer_actor>(self_->current_sender());
    self_->monitor(observer);
    observers_.push_back(observer);
    if (exporter_)
      self_->send(observer,
                  Note{"metrics: http://" + exporter_->address() + "/metrics"});
    if (outcome_)
      self_->send(observer, *outcome_);
  }

  void on(const RoleDied& died) {
    metrics_.restarts.add();
    note(died.how);
  }

  void on(const MetricsReport& report) {
    if (auto known = present_.find(report.role); known != present_.end())
      known->second.heard = Clock::now();
    if (exporter_)
      exporter_->publish(to_string(report.role), report.samples);
    if (report.peak_memory_bytes > 0)
      record_.peak_memory(report.role, report.peak_memory_bytes);
  }

  void on_tick() {
    self_->delayed_send(self_, tick_period, caf::tick_atom_v);
    if (stage_ == Stage::over) {
      leave();
      return;
    }
    const auto now = Clock::now();
    perform(membership_.tick(now_ms()));
    watch_silence(now);
    if (stage_ == Stage::over)
      return;
    const auto recomputed = commits_.leaves_recomputed();
    metrics_.recomputed.add(
      static_cast<double>(recomputed - std::exchange(recomputed_, recomputed)));
    if (exporter_ && ++ticks_ % 10 == 0)
      exporter_->publish("node", caf_metrics(self_->system()));
    if (fence_.job != 0)
      for (auto worker : std::exchange(hungry_, {}))
        on(LeaseRequest{fence_, worker, 1});
    if (stopped_ && now > stop_deadline_ && stage_ != Stage::over)
      fail(stop_why_ + " after step " + std::to_string(steps_)
           + ": nothing was saved, the roles did not stop in time");
    else if (now - touched_
             > std::chrono::milliseconds{options_.stall_deadline_ms})
      fail("no step was committed for "
           + std::to_string(options_.stall_deadline_ms / 1000)
           + " s after step " + std::to_string(steps_)
           + ": look at troupe's logs (--log-dir)");
  }

  coordinator_actor::pointer self_;
  std::shared_ptr<const Job> job_;
  JobData data_;
  CoordinatorOptions options_;
  std::shared_ptr<MetricExporter> exporter_;
  bool async_;
  std::shared_ptr<MetricRegistry> registry_;
  CoordinatorMetrics metrics_;

  Membership membership_;
  uint64_t incarnations_ = 0;
  std::map<RoleId, Present> present_;
  std::map<RoleId, Clock::time_point> lost_; ///< until they say hello again
  std::map<RoleId, Sealed> seals_;
  Fence proposed_;
  Fence fence_; ///< of the active epoch; job 0: none is active
  std::string probe_; ///< of the first worker
  std::string build_;
  bool begun_ = false;

  CommitBook commits_;
  LeaseBook leases_;
  std::map<uint64_t, LeafLoss> lease_losses_;
  CommitBook::Commit window_; ///< async: the step that is filling up
  uint32_t window_leases_ = 0;
  std::set<RoleId> hungry_;
  uint64_t asked_epoch_ = 0;

  SnapshotBook snapshots_;
  std::optional<Snapshot> final_;
  evaluator_actor evaluator_;
  std::map<uint64_t, EpochEnd> epoch_ends_;
  std::map<uint64_t, Evaluation> evaluations_;
  bool final_evaluated_ = false;

  RunRecord record_;
  uint64_t recomputed_ = 0;
  uint64_t steps_ = 0;
  uint64_t end_;
  Stage stage_ = Stage::running;
  bool stopped_ = false;
  std::string stop_why_;
  Clock::time_point stop_deadline_;
  Clock::time_point leave_deadline_;
  std::map<RoleId, uint64_t> paused_;
  Clock::time_point touched_;
  Clock::time_point shown_;
  uint64_t ticks_ = 0;

  std::vector<observer_actor> observers_;
  supervisor_actor supervisor_;
  std::optional<Finished> outcome_;
};

} // namespace

coordinator_actor
spawn_coordinator(caf::actor_system& system, std::shared_ptr<const Job> job,
                  JobData data, CoordinatorOptions options,
                  std::shared_ptr<MetricExporter> exporter) {
  return system.spawn<coordinator_actor::stateful_impl<CoordinatorState>>(
    std::move(job), std::move(data), std::move(options), std::move(exporter));
}

} // namespace troupe
