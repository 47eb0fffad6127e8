#pragma once

#include "monitoring/data_names.hpp"
#include "monitoring/metrics.hpp"
#include "monitoring/names.hpp"

namespace troupe {

/// The metrics that a reader feeds (monitoring/data_names.hpp).
struct ReaderMetrics {
  explicit ReaderMetrics(MetricRegistry& registry)
    : samples(registry.counter(metrics::reader_samples_total)),
      bytes(registry.counter(metrics::reader_bytes_total)),
      requests(registry.gauge(metrics::reader_requests)),
      read(registry.histogram(metrics::read_duration_seconds)),
      queue(registry.gauge(metrics::executor_queue_tasks)) {}
  Counter& samples;
  Counter& bytes;
  Gauge& requests;
  Histogram& read;
  Gauge& queue;
};

} // namespace troupe
