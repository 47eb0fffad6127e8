#pragma once

#include "monitoring/metrics.hpp"
#include "monitoring/names.hpp"

namespace troupe {

/// The metrics that a coordinator feeds (monitoring/names.hpp).
struct CoordinatorMetrics {
  explicit CoordinatorMetrics(MetricRegistry& registry)
    : registry(registry),
      steps(registry.counter(metrics::steps_committed_total)),
      samples(registry.counter(metrics::samples_committed_total)),
      data_epoch(registry.gauge(metrics::data_epoch)),
      loss(registry.gauge(metrics::training_loss)),
      last_commit(registry.gauge(metrics::last_commit_timestamp_seconds)),
      step_seconds(registry.histogram(metrics::step_duration_seconds)),
      restarts(registry.counter(metrics::restarts_total)),
      epoch(registry.gauge(metrics::membership_epoch)),
      recomputed(registry.counter(metrics::leaves_recomputed_total)) {}

  void recomputed_so_far(uint64_t leaves) {
    recomputed.add(static_cast<double>(leaves - leaves_recomputed));
    leaves_recomputed = leaves;
  }

  MetricRegistry& registry;
  Counter& steps;
  Counter& samples;
  Gauge& data_epoch;
  Gauge& loss;
  Gauge& last_commit;
  Histogram& step_seconds;
  Counter& restarts;
  Gauge& epoch;
  Counter& recomputed;
  uint64_t leaves_recomputed = 0; ///< that are in it
};

} // namespace troupe
