#pragma once

#include "actors/collectives/stream_reducer.hpp"
#include "actors/job.hpp"
#include "actors/messages.hpp"

namespace troupe {

/// How the job's replicas reduce over streams in an epoch.
StreamOptions stream_options(const Job& job, const Fence& fence);

} // namespace troupe
