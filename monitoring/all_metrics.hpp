#pragma once

#include "monitoring/cable_names.hpp"
#include "monitoring/checkpoint_names.hpp"
#include "monitoring/data_names.hpp"
#include "monitoring/names.hpp"
#include "monitoring/process_names.hpp"
#include "monitoring/store_names.hpp"
#include "monitoring/supervision_names.hpp"

#include <array>

namespace troupe::metrics {

/// All of names.hpp and its like.
inline constexpr std::array all{
  steps_committed_total,
  steps,
  samples_committed_total,
  data_epoch,
  training_loss,
  evaluation_loss,
  evaluation_accuracy,
  evaluation_auc,
  evaluation_perplexity,
  last_commit_timestamp_seconds,
  checkpoints_total,
  checkpoint_duration_seconds,
  checkpoint_bytes,
  checkpoint_step,
  checkpoint_timestamp_seconds,
  checkpoint_under_way_seconds,
  step_duration_seconds,
  compute_duration_seconds,
  push_duration_seconds,
  pull_duration_seconds,
  pushed_bytes_total,
  pulled_bytes_total,
  gradients_computed_twice_total,
  executor_queue_tasks,
  data_wait_seconds,
  decode_seconds,
  reader_samples_total,
  reader_bytes_total,
  reader_requests,
  read_duration_seconds,
  store_requests_total,
  store_retries_total,
  store_bytes_total,
  store_wait_seconds_total,
  data_cache_hits_total,
  data_cache_misses_total,
  data_cache_damaged_total,
  all_reduce_wait_seconds,
  all_reduce_bytes_total,
  link_carrier,
  push_staleness_steps,
  pushes_too_stale_total,
  late_pushes_dropped_total,
  pending_nodes,
  duplicates_dropped_total,
  shard_busy_seconds_total,
  chain_slices,
  chain_forwarded_bytes_total,
  chain_copied_bytes_total,
  link_sent_bytes_total,
  link_received_bytes_total,
  link_queued_bytes,
  link_delivered_bytes_total,
  link_busy_seconds_total,
  link_stalled_seconds,
  receive_wait_seconds,
  link_messages_dropped_total,
  restarts_total,
  supervised,
  restarts_left,
  restarts_allowed,
  waits_for,
  step_age_seconds,
  membership_epoch,
  members,
  left_out,
  loss_seconds,
  epoch_pause_seconds,
  leaves_recomputed_total,
  recoveries_total,
  process_cpu_seconds_total,
  process_resident_memory_bytes,
  metrics_conflicts_total,
  metrics_dropped_total,
};

} // namespace troupe::metrics
