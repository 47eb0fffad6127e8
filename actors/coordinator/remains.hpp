#pragma once

#include "actors/job/snapshot_book.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// The newest version that the members of a split model, all of which have
/// ended, have left whole together: each slice as one of them holds it. Two
/// versions of a slice lie in each one's memory, and those that hold the same
/// are copies of each other. Nothing where no version is whole.
/// `states`: files of that memory (ShardStore); one that cannot be opened, or
/// is of another job, counts as lost.
std::optional<Snapshot> what_remains(const Job& job, uint64_t job_id,
                                     const std::vector<std::string>& states);

} // namespace troupe
