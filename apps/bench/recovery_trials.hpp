#pragma once

#include "apps/process/followed_journal.hpp"
#include "apps/process/launched_job.hpp"
#include "apps/process/role_processes.hpp"
#include "apps/process/run_folder.hpp"
#include "apps/terminal/interrupt.hpp"
#include "strategies/plan.hpp"

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace troupe {

/// What happens to which role, and what the next commit may take.
struct RecoveryKind {
  const char* name;
  const char* what;   ///< in words
  const char* layout; ///< flags of the job, four members that compute
  bool standby;       ///< there are two coordinators
  RoleKind role;
  bool stops;       ///< SIGSTOP for 10 s; else SIGKILL
  double median_ms; ///< bars
  double worst_ms;
};
/// Those that `troupe bench recovery` knows.
const std::vector<RecoveryKind>& recovery_kinds();

/// A job of processes whose roles are killed or stopped, one after another.
class RecoveryTrials {
public:
  /// Starts the job and waits until all take part in it, and some seconds.
  /// `model`: empty is a small one that computes.
  /// `interrupt` takes the job's folder along.
  RecoveryTrials(const RecoveryKind& kind, uint64_t seed, Interrupt& interrupt,
                 const std::string& model = {});

  /// Strikes a random role at a random moment of a whole job. Returns the
  /// milliseconds from the signal to the first step that is committed without
  /// it, and waits until the job is whole again.
  /// Errors: InputError where that does not happen in time.
  double strike();
  /// Returns the steps that are committed a second.
  double undisturbed(std::chrono::milliseconds period);
  struct StruckPeriod {
    double steps_a_second = 0;
    double lost_seconds = 0; ///< that the steps around the kill lack
  };
  /// The same with a kill of a random role at a random moment.
  StruckPeriod struck(std::chrono::milliseconds period);
  /// Ends the job. Returns the leaves that were computed again.
  /// Errors: InputError where its weights are not those of one device (of the
  /// small model), a step was rolled back or a process is left.
  uint64_t finish();

private:
  struct Pace {
    double steps = 0;
    double seconds = 0;
    double steps_a_second() const { return seconds > 0 ? steps / seconds : 0; }
  };
  /// From the newest commit that is known to the newest one then.
  Pace pace_until(std::chrono::steady_clock::time_point end);
  const HeldProcess& draw_victim(std::string& role);
  void look_until_whole();

  const RecoveryKind& kind_;
  bool computes_; ///< the small model, whose weights are compared
  RunFolder folder_;
  std::vector<std::string> arguments_;
  Plan plan_;
  FollowedJournal journal_;
  LaunchedJob job_;
  RoleProcesses processes_;
  std::mt19937_64 random_;
};

} // namespace troupe
