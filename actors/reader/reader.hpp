#pragma once

#include "actors/role/context.hpp"

namespace troupe {

/// Spawns a reader: it reads and decodes samples of the job's training data
/// for workers that ask for them (RowsWanted), on an executor of its own, and
/// keeps nothing. It is a member of no epoch: workers find it through the
/// coordinator (JobInfo::readers), and any reader gives the same bits.
/// Completion: the actor ends with the job.
reader_actor spawn_reader(caf::actor_system& system, RoleContext context);

} // namespace troupe
