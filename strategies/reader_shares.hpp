#pragma once

#include "strategies/role_id.hpp"

#include <set>
#include <vector>

namespace troupe {

/// Who reads samples for a worker, of the readers that are there: as many
/// workers as can be have readers of their own, in the order of their numbers.
///
///   more readers than workers    reader i is worker (i mod workers)'s
///   else                         worker i has reader (i mod readers)
///
/// All is counted among those in `present`, and the worker itself. Empty:
/// nobody reads.
std::vector<RoleId> readers_of(RoleId worker, const std::set<RoleId>& present);

/// The readers that are there beside a worker's own, for when none of those
/// answers: from its own on and around, so that not all fall to one.
std::vector<RoleId> other_readers(const std::vector<RoleId>& own,
                                  const std::set<RoleId>& present);

} // namespace troupe
