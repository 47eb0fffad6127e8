#pragma once

#include "actors/wire/caf.hpp"
#include "monitoring/metrics.hpp"

#include <vector>

namespace troupe {

/// Bridges CAF's own registry (running actors, messages processed and
/// rejected, middleman sizes and times) into plain samples named caf_….
std::vector<MetricSample> caf_metrics(caf::actor_system& system);

/// What this process has had of the machine (monitoring/process_names.hpp).
std::vector<MetricSample> process_metrics();

/// Peak resident memory of this process.
uint64_t peak_memory_bytes();

} // namespace troupe
