#pragma once

#include "monitoring/metrics.hpp"

/// Metrics of a role's process, under the names that Prometheus' own client
/// libraries give them; all_metrics.hpp lists them.
namespace troupe::metrics {

inline constexpr MetricDescription process_cpu_seconds_total{
  MetricSample::Kind::counter, "process_cpu_seconds_total",
  "Time that the role's process had a processor, user and system."};
inline constexpr MetricDescription process_resident_memory_bytes{
  MetricSample::Kind::gauge, "process_resident_memory_bytes",
  "Memory of the role's process that is resident."};

} // namespace troupe::metrics
