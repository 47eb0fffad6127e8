#pragma once

#include "monitoring/metrics.hpp"

/// Metrics of data at https:// and s3://, of processes that have asked for
/// some; all_metrics.hpp lists them.
namespace troupe::metrics {

inline constexpr MetricDescription store_requests_total{
  MetricSample::Kind::counter, "troupe_store_requests_total",
  "Requests that the process has sent to stores of data."};
inline constexpr MetricDescription store_retries_total{
  MetricSample::Kind::counter, "troupe_store_retries_total",
  "Requests to stores that had failed for a while and were sent again."};
inline constexpr MetricDescription store_bytes_total{
  MetricSample::Kind::counter, "troupe_store_bytes_total",
  "Bytes that have come from stores."};
inline constexpr MetricDescription store_wait_seconds_total{
  MetricSample::Kind::counter, "troupe_store_wait_seconds_total",
  "Time that threads of the process waited for bytes of stores; what else "
  "samples take is their decoding."};
inline constexpr MetricDescription data_cache_hits_total{
  MetricSample::Kind::counter, "troupe_data_cache_hits_total",
  "Reads that the cache of --data-cache had the block for."};
inline constexpr MetricDescription data_cache_misses_total{
  MetricSample::Kind::counter, "troupe_data_cache_misses_total",
  "Reads that the cache of --data-cache had no block for."};
inline constexpr MetricDescription data_cache_damaged_total{
  MetricSample::Kind::counter, "troupe_data_cache_damaged_total",
  "Damaged blocks that were removed from the cache of --data-cache."};

} // namespace troupe::metrics
