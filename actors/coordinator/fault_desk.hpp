#pragma once

#include "actors/compute/fault_trigger.hpp"
#include "actors/journal/job_journal.hpp"
#include "actors/wire/interfaces.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/files/full_disk.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe {

/// The faults that the coordinator was asked for and that are not over yet: a
/// role dies in a phase, its replacement perhaps in another, and once the job
/// is whole again who asked is told.
class FaultDesk {
public:
  using Clock = SteadyClock;

  FaultDesk(coordinator_actor::pointer self, uint64_t job)
    : self_(self), job_(job) {}

  /// `actor` plays the role now; null: nobody does. `passes` tells whether the
  /// role goes through a phase as things stand.
  caf::result<Note> inject(const InjectFault& fault, const role_actor& actor,
                           const std::function<bool(StepPhase)>& passes,
                           Clock::time_point now);
  /// The coordinator itself dies, from the next tick on, and another follows.
  /// Answered before, for nobody could afterwards.
  caf::result<Note> inject_own(const InjectFault& fault, JobJournal& journal);
  /// The coordinator's disk is full for fault.amount milliseconds. Answered a
  /// moment after them, when the journal has been written again.
  caf::result<Note> fill_disk(const InjectFault& fault,
                              const std::shared_ptr<FullDisk>& disk,
                              JobJournal& journal);
  /// The same of a disk that is slow.
  caf::result<Note> slow_disk(const InjectFault& fault,
                              const std::shared_ptr<FullDisk>& disk,
                              JobJournal& journal);
  /// The coordinator is in that phase now.
  void pass_own(StepPhase phase) { own_.pass(phase); }
  /// Another process plays the role.
  void joined(RoleId role, const role_actor& actor);
  /// Returns the phase that the role was to die in; `none`: this was no fault
  /// of ours.
  StepPhase lost(RoleId role);
  /// What was to happen to the role has, and it lives.
  void struck(const FaultStruck& fault);
  /// These play their roles in full again.
  void whole(const std::set<RoleId>& roles);
  /// The run is over: nothing more will come.
  void over();
  /// Takes back what has not come in time.
  void tick(Clock::time_point now);

private:
  struct Asked {
    std::deque<StepPhase> phases; ///< that are still to come
    uint32_t after = 0;
    FaultKind kind = FaultKind::kill;
    uint32_t amount = 0;
    Clock::time_point deadline;
    role_actor armed;
    caf::typed_response_promise<Note> promise;
    std::string died; ///< how and where so far
  };

  void arm(Asked& asked, const role_actor& actor);

  coordinator_actor::pointer self_;
  uint64_t job_;
  std::map<RoleId, Asked> asked_;
  std::optional<caf::typed_response_promise<Note>> own_promise_;
  FaultTrigger own_{true};
  StepPhase own_phase_ = StepPhase::none; ///< not armed yet
};

} // namespace troupe
