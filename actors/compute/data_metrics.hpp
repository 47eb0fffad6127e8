#pragma once

#include "actors/compute/step_gradient.hpp"
#include "monitoring/data_names.hpp"
#include "monitoring/metrics.hpp"

namespace troupe {

/// What whoever reads samples for its steps measures of that.
struct DataMetrics {
  explicit DataMetrics(MetricRegistry& registry)
    : wait(registry.histogram(metrics::data_wait_seconds)),
      decode(registry.histogram(metrics::decode_seconds)) {}
  void took(const DataTime& time) {
    wait.observe(time.wait);
    decode.observe(time.decode);
  }
  Histogram& wait;
  Histogram& decode;
};

} // namespace troupe
