#pragma once

#include "monitoring/metrics.hpp"

/// The metrics of checkpoints; else as names.hpp.
namespace troupe::metrics {

inline constexpr MetricDescription checkpoints_total{
  MetricSample::Kind::counter, "troupe_checkpoints_total",
  "Checkpoints, by label result: written, failed."};
inline constexpr MetricDescription checkpoint_duration_seconds{
  MetricSample::Kind::histogram, "troupe_checkpoint_duration_seconds",
  "Time to write a checkpoint, beside the training."};
inline constexpr MetricDescription checkpoint_bytes{
  MetricSample::Kind::gauge, "troupe_checkpoint_bytes",
  "Bytes of tensors in the newest checkpoint."};
inline constexpr MetricDescription checkpoint_step{
  MetricSample::Kind::gauge, "troupe_checkpoint_step",
  "Steps whose outcome is in the newest checkpoint."};
inline constexpr MetricDescription checkpoint_timestamp_seconds{
  MetricSample::Kind::gauge, "troupe_checkpoint_timestamp_seconds",
  "Unix time when the newest checkpoint was written."};
inline constexpr MetricDescription checkpoint_under_way_seconds{
  MetricSample::Kind::gauge, "troupe_checkpoint_under_way_seconds",
  "For how long a checkpoint has been written by now; 0: none is."};

} // namespace troupe::metrics
