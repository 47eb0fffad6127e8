#pragma once

#include "actors/journal/event.hpp"
#include "actors/journal/run_counts.hpp"
#include "strategies/consistency.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What a journal says of its job: all that a later coordinator begins with.
struct JobHistory {
  uint64_t job = 0;
  std::string asked;           ///< JobOptions as JSON, as they were given
  uint64_t term = 0;           ///< of the newest coordinator
  std::string address;         ///< where it listened; empty: it did not yet
  std::string metrics_address; ///< empty: none
  std::string resume_from;     ///< the checkpoint it began with; empty: none
  std::string layout;          ///< kept_layout(); empty: none
  /// Initial weights that it wrote, or was about to: the file, and the folder
  /// that they went to; empty: none.
  std::pair<std::string, std::string> initial;

  uint32_t devices = 0; ///< that are left; 0: all
  /// Laid out anew since the newest epoch, of which nothing holds any more.
  bool replanned = false;
  /// Who decided that the newest time: members that this term's coordinator, or
  /// an earlier one, numbered are of a layout that holds no more. None: never.
  std::optional<uint64_t> replanned_in;
  uint64_t epoch = 0;                 ///< newest that was decided; 0: none
  std::map<RoleId, uint64_t> members; ///< of it, with their incarnations
  /// Each slice's replicas in that epoch, head first; and who shall keep it.
  std::vector<std::vector<uint32_t>> chains;
  std::vector<std::vector<uint32_t>> wanted;
  Consistency consistency;
  uint64_t period_epoch = 0;                ///< the first of the period
  std::vector<std::string> numeric_classes; ///< EpochRow's
  std::set<RoleId> joined;                  ///< beyond the plan
  std::set<RoleId> left;                    ///< for good

  uint64_t steps = 0; ///< known to be committed: there may be more
  RunCounts counts;
  std::vector<RecoveryRow> recoveries;
  struct Switch {
    uint64_t step = 0;
    std::string mode;
    uint64_t unix_ms = 0;
  };
  std::vector<Switch> switches;
  struct Commit {
    uint64_t unix_ms = 0;
    uint64_t step = 0;    ///< committed
    uint64_t samples = 0; ///< in committed steps
    double loss = 0;      ///< of the last one
  };
  std::vector<Commit> curve; ///< in the order of their events
  /// The newest 200 events but commits, which are the curve.
  std::vector<JournalEvent> newest;
  std::vector<std::string> changes; ///< each JSON, as the summary has it
  std::string evaluation;           ///< JSON of the newest; empty: none
  /// Where the coordinator is to die by its own hand, or none.
  StepPhase fault = StepPhase::none;
  /// Members whose certificates hold no longer, and up to which Unix time they
  /// were issued; tokens that were used, and when they expire.
  std::map<std::string, int64_t> revoked;
  std::map<std::string, int64_t> used_tokens;
  bool over = false;
};

/// Adds up a journal from its beginning. Kinds that are not known are left to
/// those who know them.
/// Errors: InputError naming the event that does not say what its kind says.
JobHistory read_history(const std::vector<JournalEvent>& events);

/// Whom an event of kind "revoked" names, and until when. Nullopt: it is none.
/// Errors: as read_history().
std::optional<std::pair<std::string, int64_t>>
revoked_in(const JournalEvent& event);

/// The kinds of events that are written.
std::vector<std::string> journal_kinds();

} // namespace troupe
