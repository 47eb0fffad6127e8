#pragma once

#include "actors/journal/event.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

struct FoldLimits {
  size_t newest = 512; ///< events that stay as they are
  size_t most = 256;   ///< of commits, and of evaluations, among the older ones
};

/// A journal without what nobody needs of it any more: older rows of commits
/// that follow one another become one, of older evaluations some are left out.
/// What read_history() makes of it is the same, but for what is only shown (the
/// curve, the newest events). So a journal grows with what happens in a run,
/// not with how long it goes on. Numbers stay, with gaps; of rows that became
/// one it is the last one's.
std::vector<JournalEvent> folded(std::vector<JournalEvent> events,
                                 FoldLimits limits = {});

/// The same of the events up to this number; those behind it stay.
std::vector<JournalEvent> folded_until(uint64_t id,
                                       std::vector<JournalEvent> events,
                                       FoldLimits limits = {});

/// The later row of commits for both; none: the steps of it do not follow the
/// earlier one's. Errors: nlohmann::json::exception, for what is no such row.
std::optional<JournalEvent> merged_commits(const JournalEvent& earlier,
                                           const JournalEvent& later);

} // namespace troupe
