#pragma once

#include "actors/journal/folding.hpp"
#include "strategies/quorum_log.hpp"

#include <cstddef>
#include <vector>

namespace troupe {

/// When those who keep a journal together fold what is decided of it.
struct LogFolding {
  size_t period = 2'048; ///< events written in between
  FoldLimits limits{};
};

/// A journal as a log of terms: up to the last number that is missing it is
/// folded.
LogShape shape_of(const std::vector<JournalEvent>& events);

} // namespace troupe
