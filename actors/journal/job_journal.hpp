#pragma once

#include "actors/journal/event.hpp"
#include "actors/journal/run_counts.hpp"
#include "strategies/consistency.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// A decided epoch: what the next coordinator must know of it.
struct EpochRow {
  uint64_t epoch = 0;
  uint64_t version = 0; ///< where it begins
  bool rollback = false;
  std::map<RoleId, uint64_t> members; ///< with their incarnations
  std::vector<std::vector<uint32_t>> chains;
  std::vector<std::vector<uint32_t>> wanted;
  Consistency consistency;
  uint64_t period_epoch = 0;
  /// In which steps are computed up to this epoch's, the newest last.
  std::vector<std::string> numeric_classes;
  std::string reason; ///< of this epoch, and of where it begins; for people
};

/// How the job goes on without a member that is gone for good.
struct ReplanRow {
  RoleId gone;
  uint32_t devices = 0;    ///< that are left
  std::string layout;      ///< kept_layout()
  std::string resume_from; ///< the checkpoint that it goes on from
  uint64_t version = 0;    ///< of that
  std::string reason;      ///< for people
};

/// What a coordinator writes into its journal (PROTOCOL 15, 16):
///
///   coordinator a coordinator has begun; its term is the event's
///   job         the job and what was asked for
///   initial     the initial weights are about to be the first checkpoint
///   address     where this coordinator listens; before it, layout: of stages
///   epoch       decided: nobody is told before it is synced
///   commits     history: several steps at once, with the counts so far
///   replan      decided: the next coordinator lays the job out anew
///   death       a role is lost
///   recovery    steps go on after that
///   rollback    steps are undone; with the counts so far
///   restart     a supervisor has started a role again
///   joined/left a role beyond the plan; a role that goes for good
///   consistency a period begins
///   change      a wish to reshape the job is fulfilled
///   evaluation  what held-out samples gave
///   fault       this coordinator is about to die on purpose
///   revoked     a member's certificates of until then hold no longer
///   token       a member has joined with a token, which is used up
///   over        the run has ended
///
/// Without a sink nothing is written.
class JobJournal {
public:
  JobJournal() = default;
  JobJournal(std::shared_ptr<JournalSink> sink, uint64_t term)
    : sink_(std::move(sink)), term_(term) {}

  void began(bool again, std::function<void()> synced);
  void job(uint64_t job, const std::string& asked);
  /// Of the file `weights`, into the folder of checkpoints.
  void initial(const std::string& weights, const std::string& folder,
               std::function<void()> synced);
  void address(const std::string& coordinator, const std::string& metrics,
               const std::string& resume_from);
  /// The coordinator that follows lays the job out so. Calls synced() as
  /// epoch() does.
  void replanned(const ReplanRow& row, std::function<void()> synced);
  /// Calls synced() on another thread; at once where nothing is written.
  void epoch(const EpochRow& row, std::function<void()> synced);
  /// Remembers a commit; flush() writes what is remembered.
  void committed(uint64_t step);
  bool has_commits() const { return steps_ > 0; }
  void flush(RunCounts counts);
  void death(const RecoveryRow& row);
  void recovery(const RecoveryRow& row);
  void rolled_back(uint64_t version, uint64_t undone, const std::string& reason,
                   RunCounts counts);
  void restarted(RoleId role, const std::string& how);
  void joined(RoleId role);
  /// Calls synced() as epoch() does.
  void left(RoleId role, std::function<void()> synced);
  void switched(uint64_t step, const std::string& mode);
  void changed(const std::string& json);
  void evaluated(uint64_t version, uint64_t samples,
                 const std::vector<std::pair<std::string, double>>& measures);
  void fault(StepPhase phase, std::function<void()> synced);
  /// Times are seconds of Unix time. They call synced() as epoch() does.
  void revoked(const std::string& member, int64_t until,
               std::function<void()> synced);
  void token_used(const std::string& member, const std::string& nonce,
                  int64_t expires, std::function<void()> synced);
  void over(int status, const std::string& line);
  /// Writes an event of any other kind: history for people.
  void note(const std::string& kind, const nlohmann::json& body);

private:
  void write(const std::string& kind, const nlohmann::json& body,
             std::function<void()> synced = {});

  std::shared_ptr<JournalSink> sink_;
  uint64_t term_ = 0;
  uint64_t first_ = 0; ///< of the commits that are remembered
  uint64_t steps_ = 0;
};

/// Now, by the machine's clock, in Unix milliseconds.
uint64_t unix_ms();

} // namespace troupe
