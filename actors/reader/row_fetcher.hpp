#pragma once

#include "actors/links/message_links.hpp"
#include "actors/role/context.hpp"

#include <memory>

namespace troupe {

/// The training samples of a job as a worker has them that reads none itself:
/// readers serve their rows, over `links` or, where those are null, in this
/// process. What is expected comes ahead, within --data-memory, or 64 MiB. A
/// reader that dies is replaced by another; where none is there, whoever
/// gathers waits, up to --data-timeout, and that is said.
/// Owner: an actor beside the worker, which ends with the last copy.
std::shared_ptr<const Dataset>
samples_of_readers(caf::actor_system& system, const RoleContext& context,
                   const std::shared_ptr<MessageLinks>& links);

} // namespace troupe
