#pragma once

#include "actors/coordinator/checkpoint_desk.hpp"
#include "actors/coordinator/coordinator.hpp"
#include "actors/coordinator/evaluator_desk.hpp"
#include "actors/coordinator/fault_desk.hpp"
#include "actors/coordinator/joining_desk.hpp"
#include "actors/coordinator/leave_desk.hpp"
#include "actors/coordinator/left_out_desk.hpp"
#include "actors/coordinator/loss_watch.hpp"
#include "actors/coordinator/metrics.hpp"
#include "actors/coordinator/observers.hpp"
#include "actors/coordinator/run_clock.hpp"
#include "actors/coordinator/run_ending.hpp"
#include "actors/coordinator/run_outputs.hpp"
#include "actors/coordinator/run_record.hpp"
#include "actors/coordinator/watch.hpp"
#include "actors/journal/job_journal.hpp"
#include "actors/page/page_feed.hpp"
#include "actors/process/stop_status.hpp"
#include "actors/role/present_role.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/engine/executor.hpp"
#include "strategies/commit_book.hpp"
#include "strategies/consistency_switch.hpp"
#include "strategies/epoch_plan.hpp"
#include "strategies/lease_account.hpp"
#include "strategies/membership.hpp"
#include "strategies/reshaping.hpp"
#include "strategies/resume.hpp"
#include "strategies/run_course.hpp"
#include "strategies/shard_loads.hpp"
#include "strategies/sign_pace.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// The coordinator: its handlers, each with the file that has it, and below
/// them what it knows. coordinator.cpp says which message goes to which. The
/// order of a run is in strategies/run_course.hpp, that of an epoch in
/// strategies/membership.hpp.
class CoordinatorState {
public:
  using Clock = SteadyClock;
  static inline const char* name = "coordinator";

  CoordinatorState(coordinator_actor::pointer self,
                   std::shared_ptr<const Job> job, JobData data,
                   CoordinatorOptions options,
                   std::shared_ptr<MetricExporter> exporter);

  coordinator_actor::behavior_type make_behavior();

private:
  using Reshaper = caf::typed_response_promise<Note>;
  // --- who joins (joining.cpp) ----------------------------------------------
  caf::result<JobInfo> on(const Hello& hello);
  std::string refusal(RoleId role) const;
  JobInfo answer_again(const Hello& hello);
  void name_readers(RoleId worker, JobInfo& info) const;
  void look_at_joining();
  void on(const Join& join);
  void pace_signs(); ///< as many members as there are now
  std::string misfit(const Join& join);
  void turn_away(const Join& join, const std::string& why);
  void begin_without_all();
  std::set<RoleId> present_roles() const;
  std::set<RoleId> present_members() const; ///< of epochs: without readers
  std::vector<RoleId> absent_roles() const;
  bool has_readers() const;

  // --- who is silent, lost or left out (lost_members.cpp) -------------------
  void on(const caf::down_msg& down);
  void on(const RoleDied& died);
  void forget(RoleId role);
  bool is_gone(RoleId role, uint64_t incarnation) const;
  bool is_of_old_layout(RoleId role, uint64_t incarnation) const;
  bool is_guest(RoleId role) const;
  bool is_planned(RoleId role) const;
  void await_back(RoleId role);
  /// It is a member no longer, and with it the epoch is over.
  void remove_member(RoleId role, uint64_t incarnation);
  /// Says so, and asks its supervisor for another process.
  void leave_out(RoleId role, const std::string& reason);
  /// Says so alone.
  void tell_left_out(RoleId role, const std::string& reason);
  void perform(const Membership::LeaveOut& leave);
  void watch_silence(Clock::time_point now); ///< and for who stays away
  void heard_sender();                       ///< of this message: it is alive
  void on(const LinkLost& lost); ///< another epoch, if no loss explains it
  void leave_out_unlinked();

  // --- from a proposal to an epoch (epochs.cpp) -----------------------------
  void perform(const Membership::Actions& actions);
  void perform(const Membership::Propose& propose);
  void on(const Sealed& sealed);
  void perform(const Membership::Await& await);
  EpochPlan::Known known() const; ///< what an epoch is decided by, beside seals
  void perform(const Membership::Activate& activate);
  Activate told(const EpochDecision& epoch) const;
  void resume_steps(Activate& message, const EpochDecision& epoch);
  void resume_leases(const EpochDecision& epoch);
  void roll_back(Activate& message, const std::string& reason);
  void announce(const Activate& message);
  void perform(const Membership::Fail& failure) { fail(failure.reason); }

  template <class Message>
  void for_all(const Message& message) {
    for (const auto& [role, present] : present_)
      self_->send(present.actor, message);
  }

  // --- what outlives this coordinator (journal.cpp) -------------------------
  void resume(const JobHistory& past);
  void write_down(Activate message, bool undone, const std::string& reason);
  void write_commits();
  void write_end();
  void write_loss(RoleId role, Clock::time_point when, StepPhase phase);

  // --- a member that is gone for good (replan.cpp) --------------------------
  struct LayoutLeft; ///< how the job is laid out on the devices that are left
  using Replanner = caf::typed_response_promise<Replanned>;
  std::string replan_refusal() const;
  caf::result<Note> on(const RoleGone& gone);
  caf::result<Replanned> on(const Remains& remains);
  void keep_remains(const LayoutLeft& left, Replanner asks);
  void go_on_from(const CheckpointOutcome& from, const LayoutLeft& left,
                  Replanner asks);

  // --- switching between sync and async (switch.cpp) ------------------------
  caf::result<Note> on(const SwitchConsistency& wanted);
  void drain(); ///< lets the members finish the steps they have begun
  void drained_at(uint64_t step);
  void switch_if_drained(); ///< by the next epoch, once all are applied
  bool is_drained() const;
  void switch_or_go_on(Activate& message);

  // --- who takes part, who keeps which slice (reshape.cpp) ------------------
  caf::result<Note> on(const ReshapeJob& wanted);
  caf::result<Note> on(const LeaveRequest& request);
  void look_at_leaves();
  /// Begins it; returns what there is against it.
  std::string change(const Reshape& wish, std::optional<Reshaper> asks = {});
  void perform(const Reshaping::Actions& actions);
  void retire(RoleId role);
  void answer(const Reshaping::Answer& answer);
  /// A role that may join is about to, whether it was asked for or not.
  void admit(RoleId role);
  void on(const CaughtUp& caught_up);
  /// Whether it is a newcomer's trouble, which stays out, and not the job's.
  bool is_unfit(RoleId role, const std::string& why);
  void on(const Trouble& trouble);
  /// The epoch, unless the next is on its way.
  void renew(const std::string& cause);

  // --- commits, and leases where they are handed out (commits.cpp) ----------
  bool current(const Fence& fence) const;
  void on(const LeafReport& report);
  void on(const Applied& applied);
  void on(const StepShares& shares); ///< what a step is made of, k of n
  void committed(const std::vector<CommitBook::Commit>& commits);
  void committed(const CommitBook::Commit& commit);
  void data_epoch_ended(uint64_t data_epoch);
  void on(const LeaseRequest& request);
  void on(const LeaseApplied& applied);
  void on(const LeaseRefused& refused);
  void hand_out_leases();
  void snapshot_if_done();
  /// Told apart from the snapshots of epochs before.
  uint64_t final_async_version() const { return job_->total_steps + 1; }
  uint64_t final_version() const;

  // --- whole versions: checkpoints and evaluation (snapshots.cpp) -----------
  void on(const SnapshotSlice& slice);
  void on(const RowSnapshot& chunk);
  void snapshot_is_whole(Snapshot whole);
  CheckpointDesk::Calls checkpoint_calls();
  void look_at_checkpoints();
  void on(Evaluation evaluation);
  void show_evaluation(const Evaluation& evaluation);

  // --- ending (end.cpp) -----------------------------------------------------
  void on(const StopRequest& request);
  bool is_ending() const { return course_.is_ending(steps_); }
  bool stops_late(Clock::time_point now) const;
  void skip_pause(Clock::time_point now); ///< Ctrl-Z: no deadline counts it
  void skip_seals(Clock::time_point now); ///< nor while members end passes
  void pause();
  void on(const Paused& paused);
  void conclude_if_ready();
  void conclude(const RunOutputs& outputs);
  void fail(const std::string& line);
  void finish(const Finished& finished);

  // --- who is told (observers.cpp), and of what (watch.cpp) -----------------
  void on(const Attach& attach);
  void note(const std::string& line);
  void tell(const DataEpochEnd& end);
  void on(const MetricsReport& report);
  void leave(); ///< when everybody elsewhere has read how the run ended
  /// Of those that are present; empty: on this host alone.
  std::map<RoleId, std::string> hosts_of_members() const;
  StepView view_of_step() const;
  void look_at_waits();
  void show_members(); ///< who takes part, on the run's page

  // --- faults on purpose (faults.cpp); the tick (coordinator.cpp) -----------
  caf::result<Note> on(const InjectFault& fault);
  void on_tick();
  std::chrono::milliseconds patience_with_readers() const;
  std::chrono::milliseconds stall_deadline() const;

  coordinator_actor::pointer self_;
  Observers observers_{self_};
  RunClock clock_;
  std::shared_ptr<const Job> job_;
  JobData data_;
  CoordinatorOptions options_;
  /// The exporter reads it.
  std::shared_ptr<MetricRegistry> registry_;
  std::shared_ptr<MetricExporter> exporter_;
  bool async_; ///< of the period that lasts
  ConsistencySwitch switch_;
  uint64_t period_epoch_ = 0; ///< the first of the period that lasts
  std::vector<caf::typed_response_promise<Note>> switchers_;
  std::optional<Note> switched_; ///< what they are told with the epoch
  CoordinatorMetrics metrics_;
  JobJournal journal_;
  std::map<RoleId, uint64_t> past_members_; ///< of the coordinator before
  std::optional<uint64_t> replanned_in_;    ///< as JobHistory
  EpochPlan epoch_plan_;
  Reshaping reshaping_;
  LeaveDesk leaves_;
  JoiningDesk joining_;
  ShardLoads loads_;
  std::optional<Reshaper> reshaper_; ///< who asked
  Membership membership_;
  uint64_t incarnations_ = 0;
  std::map<RoleId, PresentRole> present_;
  LeftOutDesk left_out_;
  std::map<RoleId, Clock::time_point> lost_; ///< until they say hello again
  Seals seals_;
  Fence proposed_, fence_; ///< fence_: the active epoch's; job 0: none is
  std::map<std::string, std::string> probes_; ///< by numeric class
  bool begun_ = false, renews_ = false;       ///< a member has lost a link
  CommitBook commits_;
  LeaseAccount leases_;
  FaultDesk faults_;
  SnapshotBook snapshots_;
  EvaluatorDesk evaluator_;
  std::map<uint64_t, DataEpochEnd> data_epoch_ends_;
  std::map<uint64_t, Evaluation> evaluations_;
  RunRecord record_;
  uint64_t steps_;
  RunCourse course_;
  RunEnding ending_;
  std::map<RoleId, uint64_t> paused_;
  /// Workers that say so, and whom they have asked.
  std::map<RoleId, std::set<RoleId>> lack_samples_;
  Clock::time_point joined_, touched_, shown_; ///< last join, progress, report
  Clock::time_point looked_ = Clock::now();    ///< tick before
  SilenceWatch silence_;
  uint64_t sign_ms_ = usual_sign_ms; ///< between two signs of life of a process
  supervisor_actor supervisor_;
  CoordinatorWatch watch_{options_.restarts};
  LossWatch loss_watch_;
  CheckpointDesk checkpoints_;
  uint32_t devices_;                  ///< that a split model may be laid out on
  std::optional<RoleGone> gone_;      ///< all members are ended for that
  std::shared_ptr<Executor> outputs_; ///< makes what the run leaves behind
};

} // namespace troupe
