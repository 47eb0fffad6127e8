#pragma once

#include "actors/job.hpp"
#include "strategies/consistency.hpp"

namespace troupe {

/// How a job begins.
inline Consistency first_period(const JobOptions& options) {
  Consistency first;
  first.async = options.synchronisation == Synchronisation::async;
  first.staleness = first.async ? options.staleness : -1;
  return first;
}

} // namespace troupe
