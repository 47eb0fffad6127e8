#pragma once

#include "actors/collectives/stream_reducer.hpp"
#include "actors/job/job.hpp"
#include "actors/wire/messages.hpp"

namespace troupe {

/// How the job's replicas reduce over streams in an epoch.
StreamOptions stream_options(const Job& job, const Fence& fence);

} // namespace troupe
