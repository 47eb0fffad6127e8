#pragma once

#include "monitoring/metrics.hpp"
#include "monitoring/names.hpp"

namespace troupe {

/// The metrics that a shard feeds (monitoring/names.hpp).
struct ShardMetrics {
  explicit ShardMetrics(MetricRegistry& registry)
    : pending(registry.gauge(metrics::pending_nodes)),
      staleness(registry.histogram(metrics::push_staleness_steps)),
      too_stale(registry.counter(metrics::pushes_too_stale_total)),
      late(registry.counter(metrics::late_pushes_dropped_total)),
      duplicates(registry.counter(metrics::duplicates_dropped_total)),
      queue(registry.gauge(metrics::executor_queue_tasks)),
      busy(registry.counter(metrics::shard_busy_seconds_total)),
      heads(registry.gauge(metrics::chain_slices, {{"place", "head"}})),
      followed(registry.gauge(metrics::chain_slices, {{"place", "follower"}})),
      forwarded(registry.counter(metrics::chain_forwarded_bytes_total)),
      copied(registry.counter(metrics::chain_copied_bytes_total)) {}
  Gauge& pending;
  Histogram& staleness;
  Counter& too_stale;
  Counter& late;
  Counter& duplicates;
  Gauge& queue;
  Counter& busy;
  Gauge& heads;
  Gauge& followed;
  Counter& forwarded;
  Counter& copied;
};

} // namespace troupe
