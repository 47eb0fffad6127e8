#pragma once

#include "actors/job/job.hpp"
#include "actors/launch/fault_injector.hpp"
#include "apps/chaos/fault_proxy.hpp"
#include "apps/chaos/plan.hpp"
#include "apps/chaos/verdict.hpp"
#include "apps/process/followed_journal.hpp"
#include "apps/process/launched_job.hpp"
#include "apps/process/role_processes.hpp"
#include "apps/process/waker.hpp"

#include <functional>
#include <future>
#include <optional>
#include <vector>

namespace troupe {

/// A line of `troupe chaos` on standard output, at once.
void say(const std::string& line);

/// Strikes a running job from outside, and counts what it finds.
class ChaosRun {
public:
  /// `journal` is the job's; `proxy` null: its links are not struck.
  ChaosRun(LaunchedJob& job, const Plan& plan, const std::string& journal,
           FaultProxy* proxy = nullptr);

  /// The next strike, given how many faults are still to come; none: no more.
  using Source = std::function<std::optional<ChaosStrike>(uint64_t left)>;
  /// Strikes until there were `faults`, or the job is over. `redirect` gives a
  /// strike to another replica, as ChaosPlan. `steps_after`: ends the job by
  /// SIGTERM so many steps later; none: leaves it to itself.
  void strike(const Source& next,
              const std::function<bool(ChaosStrike&)>& redirect,
              uint64_t faults, std::optional<uint64_t> steps_after);
  /// Those that took place, as they did.
  const std::vector<ChaosStrike>& done() const { return done_; }
  /// The fault that has ended the job, if one has; the last of all.
  const std::optional<ChaosFault>& ended_by() const { return ended_by_; }
  /// It was sent SIGTERM after the last of them.
  bool stopped() const { return stopped_; }
  /// After the end of the job: adds to what it is judged by.
  void tell(ChaosEvidence& evidence, const Job& job);

private:
  /// Waits a while; none: it never was.
  std::optional<RoleProcesses::Holdings> count_when_whole();
  std::optional<RoleProcesses::Holdings> count_undisturbed();
  std::optional<RoleProcesses::Holdings> count_settled();
  std::vector<FaultAnswer> send(FaultInjector& injector, ChaosStrike& strike);
  FaultAnswer strike_from_outside(const ChaosWish& wish);
  /// Of the process that plays the role.
  std::string process_of(RoleId role) const;
  FaultAnswer stop_coordinator(const ChaosWish& wish);
  /// Returns false where it was over before.
  bool end_job(const ChaosWish& wish);

  LaunchedJob& job_;
  uint32_t chain_;
  bool paired_;        ///< worker K and shard K are one process
  uint64_t link_ends_; ///< as ChaosEvidence
  FollowedJournal journal_;
  RoleProcesses processes_;
  Waker waker_;
  FaultProxy* proxy_;
  std::vector<ChaosStrike> done_;
  std::vector<ChaosFault> faults_;
  std::optional<ChaosFault> ended_by_;
  bool stopped_ = false;
  std::optional<RoleProcesses::Holdings> before_;
  std::optional<RoleProcesses::Holdings> after_;
};

} // namespace troupe
