#include "actors/links/cable_metrics.hpp"

#include "monitoring/cable_names.hpp"

namespace troupe {

void CableMetrics::show(const CableCounts& now, MetricRegistry& registry,
                        const std::string& peer) {
  constexpr double worth_showing = 0.04; // of a second
  const auto busy = now.busy_seconds - known_.busy_seconds;
  if (shown_ || busy >= worth_showing) {
    begin(registry, peer);
    shown_->delivered.add(
      static_cast<double>(now.delivered_bytes - known_.delivered_bytes));
    shown_->busy.add(busy);
  }
  known_ = now;
}

void CableMetrics::look(const CableCounts& now, MetricRegistry& registry,
                        const std::string& peer) {
  const auto seconds = watch_.look(now, SteadyClock::now());
  if (seconds > 0)
    begin(registry, peer);
  if (shown_)
    shown_->stalled->set(seconds);
}

void CableMetrics::end() {
  if (shown_)
    shown_->stalled->set(0);
}

void CableMetrics::begin(MetricRegistry& registry, const std::string& peer) {
  const MetricLabels labels{{"peer", peer}};
  if (!shown_)
    shown_.emplace(
      Shown{registry.counter(metrics::link_delivered_bytes_total, labels),
            registry.counter(metrics::link_busy_seconds_total, labels),
            registry.largest(metrics::link_stalled_seconds, labels)});
}

} // namespace troupe
