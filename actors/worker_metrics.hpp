#pragma once

#include "monitoring/names.hpp"

#include <chrono>

namespace troupe {

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
    .count();
}

/// What a worker measures of itself.
struct WorkerMetrics {
  explicit WorkerMetrics(MetricRegistry& registry)
    : compute(registry.histogram(metrics::compute_duration_seconds)),
      push(registry.histogram(metrics::push_duration_seconds)),
      pull(registry.histogram(metrics::pull_duration_seconds)),
      pushed(registry.counter(metrics::pushed_bytes_total)),
      pulled(registry.counter(metrics::pulled_bytes_total)),
      queue(registry.gauge(metrics::executor_queue_tasks)) {}
  Histogram& compute;
  Histogram& push;
  Histogram& pull;
  Counter& pushed;
  Counter& pulled;
  Gauge& queue;
};

} // namespace troupe
