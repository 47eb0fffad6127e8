#pragma once

#include "monitoring/metrics.hpp"

/// Metrics of samples on their way to workers; all_metrics.hpp lists them.
namespace troupe::metrics {

inline constexpr MetricDescription data_wait_seconds{
  MetricSample::Kind::histogram, "troupe_data_wait_seconds",
  "Time until a step of a worker had its samples: from memory, files, a store "
  "or readers. It is part of the time that the worker computes."};
inline constexpr MetricDescription decode_seconds{
  MetricSample::Kind::histogram, "troupe_decode_seconds",
  "Time in which a step of a worker decoded samples that are left in their "
  "files: part of its wait for them. Of one sample in 16, for all of them."};
inline constexpr MetricDescription reader_samples_total{
  MetricSample::Kind::counter, "troupe_reader_samples_total",
  "Samples that a reader has read and decoded for workers."};
inline constexpr MetricDescription reader_bytes_total{
  MetricSample::Kind::counter, "troupe_reader_bytes_total",
  "Bytes of decoded samples that a reader has served."};
inline constexpr MetricDescription reader_requests{
  MetricSample::Kind::gauge, "troupe_reader_requests",
  "Requests of workers that a reader has not answered yet."};
inline constexpr MetricDescription read_duration_seconds{
  MetricSample::Kind::histogram, "troupe_read_duration_seconds",
  "Time a reader reads and decodes the samples of one request."};

} // namespace troupe::metrics
