#pragma once

#include "monitoring/metrics.hpp"

#include <string>
#include <vector>

namespace troupe {

/// One line of an exposition: name{labels} value.
struct ScrapedValue {
  std::string name; ///< with _bucket, _sum, _count of a histogram
  MetricLabels labels;
  double value = 0;
};

/// What a label says, as a terminal may show it; empty where there is none.
std::string label_of(const ScrapedValue& value, const std::string& label);

/// What a scrape would say of these, without the buckets of histograms.
std::vector<ScrapedValue> values_of(const std::vector<MetricSample>& samples);

} // namespace troupe
