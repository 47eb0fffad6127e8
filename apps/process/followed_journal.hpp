#pragma once

#include "actors/journal/event.hpp"
#include "strategies/plan.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A running job as its journal tells of it, which another process writes.
/// Times are Unix milliseconds, by the clock of the machine.
class FollowedJournal {
public:
  struct Recovery {
    std::string kind; ///< "ranks_taken_over", …
    std::string role;
    uint64_t detected_ms = 0;
    uint64_t resumed_ms = 0; ///< when the first step after it was committed
  };

  /// `plan`: whom a whole job consists of.
  FollowedJournal(std::string path, const Plan& plan);

  /// Reads what has come since. A journal that is not there yet is empty.
  /// Errors: InputError where it is damaged.
  void read();
  /// Everybody takes part, and each slice has all its replicas.
  bool whole() const { return whole_; }
  /// The first recovery of a role that was lost then, or later.
  std::optional<Recovery> recovery_of(const std::string& role,
                                      uint64_t since_ms) const;
  const std::vector<Recovery>& recoveries() const { return recoveries_; }
  /// HOST:PORT of the one that leads.
  const std::string& coordinator() const { return coordinator_; }
  uint64_t epochs() const { return epochs_; }     ///< that there were so far
  uint64_t steps() const { return steps_; }       ///< committed
  uint64_t steps_ms() const { return steps_ms_; } ///< when that was written
  /// Roles that were started again as they had had too little memory.
  uint64_t lacked_memory() const { return lacked_memory_; }
  /// What may have to be computed again, at most: of each worker that was lost
  /// the ranks that it may have had then. For each epoch but the first all of a
  /// step, where stages and tensor members take it anew, or where workers go
  /// `by_parts` (Job::goes_by_parts): nobody keeps the gradients that an owner
  /// had, or that were on their way to one.
  uint64_t leaves_of_the_lost(uint32_t virtual_ranks, bool by_parts) const;

private:
  void take(const JournalEvent& event);

  std::string path_;
  std::string coordinator_;
  size_t members_ = 0; ///< of a whole job
  bool parts_ = false; ///< which have a part of the model each
  uint32_t chain_ = 0; ///< replicas of each slice; 0: they have none
  uint64_t seen_ = 0;  ///< newest event
  bool whole_ = false;
  uint64_t epochs_ = 0;
  uint64_t steps_ = 0;
  uint64_t steps_ms_ = 0;
  std::vector<Recovery> recoveries_;
  uint64_t lacked_memory_ = 0;
  size_t workers_ = 0;                  ///< of the newest epoch
  std::vector<size_t> workers_at_loss_; ///< of the epoch that lost one
};

} // namespace troupe
