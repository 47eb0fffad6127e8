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

/// Reads Prometheus' text format; comments are skipped.
/// Errors: std::runtime_error naming the line that is none.
std::vector<ScrapedValue> parse_exposition(const std::string& text);

/// What a reader from another host has: the job's authority (PEM), and a token.
struct ScrapeCredentials {
  std::string authority{}; ///< empty: plain HTTP
  std::string token{};
};

/// Asks the endpoint of a run, HOST:PORT, for its metrics.
/// Errors: std::runtime_error naming the address, after 5 s at the latest.
std::vector<ScrapedValue> scrape(const std::string& address,
                                 const ScrapeCredentials& credentials = {});

} // namespace troupe
