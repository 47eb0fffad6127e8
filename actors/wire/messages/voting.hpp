#pragma once

#include "actors/journal/event.hpp"
#include "actors/wire/caf.hpp"
#include "actors/wire/messages/fields.hpp"

#include <string>
#include <vector>

/// What coordinators and voters say to each other (strategies/quorum_log.hpp).
namespace troupe {

/// A coordinator wishes to lead; trial: it asks whether it could.
struct AskVote {
  uint64_t term = 0;
  bool trial = false;
};
/// The answer: whether it votes so, and where its log ends.
struct VoteGiven {
  bool granted = false;
  uint64_t promised = 0;
  uint64_t end_term = 0; ///< of the voter's newest event
  uint64_t end_id = 0;
};
/// Reads a voter's events after this number.
struct ReadLog {
  uint64_t after = 0;
};
/// The answer.
struct LogPage {
  std::vector<JournalEvent> events; ///< the next ones
  bool more = false;
};
/// A leader's events for a voter; none: the leader lives. A snapshot has the
/// folded beginning of the journal, up to the event that they come after.
struct AppendLog {
  uint64_t term = 0;
  uint64_t after_term = 0; ///< of the event before them
  uint64_t after_id = 0;
  std::vector<JournalEvent> events;
  bool snapshot = false;
  uint64_t decided = 0; ///< up to this event
};
/// They are synced, or were not taken.
struct LogTaken {
  bool led = false;  ///< false: the leader's term is over
  bool fits = false; ///< false: the event before them is not there
  uint64_t have = 0;
  uint64_t promised = 0;
};

TROUPE_INSPECT(JournalEvent, TROUPE_FIELD(id), TROUPE_FIELD(unix_ms),
               TROUPE_FIELD(term), TROUPE_FIELD(kind), TROUPE_FIELD(body))
TROUPE_INSPECT(AskVote, TROUPE_FIELD(term), TROUPE_FIELD(trial))
TROUPE_INSPECT(VoteGiven, TROUPE_FIELD(granted), TROUPE_FIELD(promised),
               TROUPE_FIELD(end_term), TROUPE_FIELD(end_id))
TROUPE_INSPECT(ReadLog, TROUPE_FIELD(after))
TROUPE_INSPECT(LogPage, TROUPE_FIELD(events), TROUPE_FIELD(more))
TROUPE_INSPECT(AppendLog, TROUPE_FIELD(term), TROUPE_FIELD(after_term),
               TROUPE_FIELD(after_id), TROUPE_FIELD(events),
               TROUPE_FIELD(snapshot), TROUPE_FIELD(decided))
TROUPE_INSPECT(LogTaken, TROUPE_FIELD(led), TROUPE_FIELD(fits),
               TROUPE_FIELD(have), TROUPE_FIELD(promised))

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_voting, caf::first_custom_type_id + 300)
CAF_ADD_TYPE_ID(troupe_voting, (troupe::JournalEvent))
CAF_ADD_TYPE_ID(troupe_voting, (troupe::AskVote))
CAF_ADD_TYPE_ID(troupe_voting, (troupe::VoteGiven))
CAF_ADD_TYPE_ID(troupe_voting, (troupe::ReadLog))
CAF_ADD_TYPE_ID(troupe_voting, (troupe::LogPage))
CAF_ADD_TYPE_ID(troupe_voting, (troupe::AppendLog))
CAF_ADD_TYPE_ID(troupe_voting, (troupe::LogTaken))
CAF_END_TYPE_ID_BLOCK(troupe_voting)

namespace troupe {

using voter_actor = caf::typed_actor<caf::result<VoteGiven>(AskVote),
                                     caf::result<LogPage>(ReadLog),
                                     caf::result<LogTaken>(AppendLog)>;

} // namespace troupe
