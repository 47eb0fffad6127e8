#pragma once

#include "actors/compute/data_metrics.hpp"
#include "kernels/base/seconds_since.hpp"
#include "monitoring/names.hpp"
#include "monitoring/supervision_names.hpp"

#include <optional>
#include <utility>

namespace troupe {

/// What a worker measures of itself.
struct WorkerMetrics {
  explicit WorkerMetrics(MetricRegistry& registry)
    : compute(registry.histogram(metrics::compute_duration_seconds)),
      data(registry),
      push(registry.histogram(metrics::push_duration_seconds)),
      pull(registry.histogram(metrics::pull_duration_seconds)),
      pushed(registry.counter(metrics::pushed_bytes_total)),
      pulled(registry.counter(metrics::pulled_bytes_total)),
      queue(registry.gauge(metrics::executor_queue_tasks)),
      computed_twice(
        registry.counter(metrics::gradients_computed_twice_total)) {}
  void computed(double seconds, const DataTime& taken, bool twice) {
    compute.observe(seconds);
    data.took(taken);
    computed_twice.add(twice ? 1 : 0);
  }
  Histogram& compute;
  DataMetrics data;
  Histogram& push;
  Histogram& pull;
  Counter& pushed;
  Counter& pulled;
  Gauge& queue;
  Counter& computed_twice;
};

/// How long an asynchronous push takes. Shards do not acknowledge pushes; but a
/// shard that answers a pull has received the pushes that left before it.
class LeaseExchange {
public:
  void clear() { *this = {}; }
  void pushed() {
    if (!pushed_)
      pushed_ = SteadyClock::now();
  }
  void pull() {
    if (!awaited_)
      awaited_ = std::exchange(pushed_, std::nullopt);
  }
  /// All shards have answered the newest pull.
  void pulled(Histogram& histogram) {
    if (const auto begin = std::exchange(awaited_, std::nullopt))
      histogram.observe(seconds_since(*begin));
  }

private:
  using Moment = std::optional<SteadyClock::time_point>;
  Moment pushed_;  ///< and no pull since
  Moment awaited_; ///< a pull has left since
};

/// How long a step's pushes take: until the version that they make is here.
class Exchange {
public:
  /// A push leaves; the first one counts.
  void begin() {
    if (!std::exchange(going_, true))
      begin_ = SteadyClock::now();
  }
  /// Seconds; none: no push has left.
  std::optional<double> end(Histogram& histogram) {
    if (!std::exchange(going_, false))
      return std::nullopt;
    seconds_ = seconds_since(begin_);
    histogram.observe(seconds_);
    return seconds_;
  }
  /// The last one's seconds, once; 0: already told, or none yet.
  double take() { return std::exchange(seconds_, 0); }

private:
  SteadyClock::time_point begin_;
  bool going_ = false;
  double seconds_ = 0;
};

} // namespace troupe
