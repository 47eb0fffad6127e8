#pragma once

#include "actors/job/beginning.hpp"
#include "actors/job/job.hpp"
#include "strategies/consistency.hpp"

namespace troupe {

/// What the flags ask for.
inline Consistency first_period(const JobOptions& options) {
  Consistency first;
  first.async = options.synchronisation == Synchronisation::async;
  first.staleness = first.async ? options.staleness : -1;
  return first;
}

/// How a job begins.
inline Consistency first_period(const Job& job) {
  return job.beginning ? job.beginning->period() : first_period(job.options);
}

/// Tells whether workers are handed leases in such a period. Where dense layers
/// are all-reduced they have steps in common, and rows alone run free.
inline bool hands_out_leases(const Job& job, const Consistency& period) {
  return period.async && !job.plan.dense_reduced;
}

} // namespace troupe
