#pragma once

#include "actors/job/job.hpp"
#include "actors/job/snapshot_book.hpp"
#include "actors/journal/run_counts.hpp"
#include "actors/wire/messages.hpp"
#include "kernels/base/steady_clock.hpp"
#include "strategies/commit_book.hpp"
#include "strategies/lease_account.hpp"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe {

class PageFeed;
struct JobHistory;

/// What the coordinator writes down of a run: times of commits, losses,
/// recoveries; becomes the summary of docs/command_line.md.
class RunRecord {
public:
  using Clock = SteadyClock;

  explicit RunRecord(std::shared_ptr<const Job> job);

  void begin(Clock::time_point now); ///< the first epoch became active
  void committed(const CommitBook::Commit& commit, Clock::time_point now);
  /// Steps after `version` are undone; async: leases of them.
  void rolled_back(uint64_t version, uint64_t steps, uint64_t leases = 0);

  /// `phase`: of the fault that was asked for, or none.
  void lost(RoleId role, Clock::time_point now, uint64_t step,
            StepPhase phase = StepPhase::none);
  /// The epoch after the loss is active, with these roles: its members have
  /// been told, and of a rollback since the last such epoch too. Returns the
  /// kind of each recovery that it completes.
  std::vector<std::string> resumed(const std::set<RoleId>& present);
  /// A worker pushed a step and had the next version after so long; 0: did not.
  void exchanged(double seconds);
  void evaluated(const Evaluation& evaluation);
  void duplicates(RoleId role, uint64_t incarnation, uint64_t count);
  void switched(uint64_t step, const std::string& mode, Clock::time_point now);
  /// Who takes part, or who keeps what, begins to change (Reshaping), with this
  /// epoch at the earliest; and ends to, with that one.
  void change_begins(const std::string& what, uint64_t step, uint64_t epoch,
                     Clock::time_point now);
  void change_ends(size_t slices, uint64_t bytes, uint64_t epoch,
                   Clock::time_point now);
  /// An epoch change kept a role from its work for so long (EpochPause).
  void paused(uint64_t epoch, RoleId role, double seconds);
  void refused_stale() { ++refused_stale_; }
  void behind(uint64_t steps) { max_behind_ = std::max(max_behind_, steps); }
  void peak_memory(RoleId role, uint64_t bytes);
  /// Gradients between replicas, as they travelled and before compression.
  void sent(uint64_t bytes, uint64_t plain_bytes);

  /// Counts committed steps from the 11th on, earlier from the run's start; 0:
  /// not known.
  double samples_per_second() const;
  uint64_t samples() const { return samples_; } ///< in committed steps
  double seconds_of_last_step() const { return last_step_seconds_; }
  struct DataEpoch {
    double loss; ///< mean of the samples in steps whose loss is known
    double samples_per_second;
  };
  /// Of what was committed since the last call.
  DataEpoch take_data_epoch();
  size_t recoveries() const { return recoveries_.size(); }

  // --- for the journal (run_record_journal.cpp) ------------------------------

  /// Goes on from what an earlier coordinator wrote down.
  void resume(const JobHistory& past);
  RunCounts counts(const CommitBook& commits) const;
  /// The newest loss.
  RecoveryRow newest_loss() const { return recoveries_.back().row(); }
  /// Those after which steps have gone on since the last call.
  std::vector<RecoveryRow> take_recovered();
  /// The newest change, as the summary has it; empty: none is over.
  std::string newest_change() const;

  struct Outcome {
    uint64_t steps = 0;
    uint64_t leaves_recomputed = 0;
    uint64_t ranks_left_out = 0; ///< k of n: of all steps together
    uint64_t max_lead = 0; ///< async: of a worker over the slowest, in leases
    std::optional<LeaseAccount::Rest> rest; ///< async: beyond the last step
    uint64_t checkpoints = 0;               ///< written
    TableSizes tables;                      ///< sparse
    std::string weights_sha256;
    std::string state_sha256;
    std::string isa;
    std::string numeric_class; ///< of the workers
    /// Why it ended before its last step; empty: it did not.
    std::string stopped;
    std::map<RoleId, std::string> hosts; ///< of members, where they are known
    const PageFeed* story = nullptr;     ///< the run's; null: nobody kept it
  };
  nlohmann::ordered_json summary(const Outcome& outcome) const;

private:
  uint64_t samples_before(uint64_t version) const;
  nlohmann::ordered_json consistency_json(const Outcome& outcome) const;
  nlohmann::ordered_json recoveries_json() const;
  nlohmann::ordered_json changes_json() const;
  nlohmann::ordered_json roles_json(const Outcome& outcome) const;

  struct Switch {
    uint64_t step;
    std::string mode;
    Clock::time_point at;
  };

  struct Change {
    std::string what;
    uint64_t step;
    uint64_t first_epoch;
    Clock::time_point begin;
    std::optional<Clock::time_point> end{};
    uint64_t last_epoch = 0;
    size_t slices = 0;
    uint64_t bytes = 0;
  };
  struct Pause { ///< the longest of any role
    double push_ms = 0;
    double pull_ms = 0;
  };

  std::shared_ptr<const Job> job_;
  std::vector<Switch> switches_;
  std::vector<Change> changes_;
  std::map<uint64_t, Pause> pauses_; ///< by epoch
  Clock::time_point begin_;
  Clock::time_point measured_from_;
  Clock::time_point last_commit_;
  uint64_t samples_ = 0;
  uint64_t measured_samples_ = 0;
  bool rollback_untold_ = false; ///< no epoch has begun with it yet
  bool replan_untold_ = false;   ///< the same
  uint64_t rolled_back_ = 0;
  uint64_t leases_rolled_back_ = 0;
  double last_loss_ = 0;
  double last_step_seconds_ = 0;
  double epoch_loss_sum_ = 0;
  uint64_t epoch_samples_ = 0; ///< of which the loss is known
  Clock::time_point epoch_from_;
  uint64_t epoch_committed_ = 0; ///< samples since then
  std::vector<float> step_ms_;
  std::vector<float> exchange_ms_;
  std::vector<Recovery> recoveries_;
  std::optional<Evaluation> evaluation_;
  std::map<std::pair<RoleId, uint64_t>, uint64_t> duplicates_;
  std::map<RoleId, uint64_t> peak_memory_;
  std::vector<std::string> past_changes_; ///< JSON, of earlier coordinators
  uint64_t past_duplicates_ = 0;
  uint64_t refused_stale_ = 0; ///< pushes
  uint64_t max_behind_ = 0;    ///< steps, of rows that run free
  uint64_t sent_bytes_ = 0, plain_bytes_ = 0;
};

} // namespace troupe
