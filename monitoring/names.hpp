#pragma once

#include "monitoring/metrics.hpp"

/// Every metric that troupe exports, for the actors that feed them, the
/// dashboard, the alerts and the tests (all_metrics.hpp). A constant is called
/// as its metric without "troupe_". Labels beside `role` are named in the help.
namespace troupe::metrics {

// -- progress (coordinator) --------------------------------------------------

inline constexpr MetricDescription steps_committed_total{
  MetricSample::Kind::counter, "troupe_steps_committed_total",
  "Training steps committed; asynchronous: V leases consumed count as one."};
inline constexpr MetricDescription steps{
  MetricSample::Kind::gauge, "troupe_steps",
  "Training steps that the run makes, unless it is ended before."};
inline constexpr MetricDescription samples_committed_total{
  MetricSample::Kind::counter, "troupe_samples_committed_total",
  "Training samples in committed steps."};
inline constexpr MetricDescription data_epoch{
  MetricSample::Kind::gauge, "troupe_data_epoch",
  "Pass over the training samples that the last committed step was of, from "
  "1."};
inline constexpr MetricDescription training_loss{
  MetricSample::Kind::gauge, "troupe_training_loss",
  "Mean loss of the last committed step."};
inline constexpr MetricDescription evaluation_loss{
  MetricSample::Kind::gauge, "troupe_evaluation_loss",
  "Mean loss over the held-out samples at the last evaluation."};
inline constexpr MetricDescription evaluation_accuracy{
  MetricSample::Kind::gauge, "troupe_evaluation_accuracy",
  "Share of held-out samples classified right at the last evaluation, 0 to 1."};
inline constexpr MetricDescription evaluation_auc{
  MetricSample::Kind::gauge, "troupe_evaluation_auc",
  "Area under the ROC curve of the held-out samples, of binary labels."};
inline constexpr MetricDescription evaluation_perplexity{
  MetricSample::Kind::gauge, "troupe_evaluation_perplexity",
  "exp of the mean loss over the held-out text, of token labels."};
inline constexpr MetricDescription last_commit_timestamp_seconds{
  MetricSample::Kind::gauge, "troupe_last_commit_timestamp_seconds",
  "Unix time of the last committed step."};
inline constexpr MetricDescription step_duration_seconds{
  MetricSample::Kind::histogram, "troupe_step_duration_seconds",
  "Time from one committed step to the next."};

// -- workers -----------------------------------------------------------------

inline constexpr MetricDescription compute_duration_seconds{
  MetricSample::Kind::histogram, "troupe_compute_duration_seconds",
  "Time a worker computes the gradients of one step."};
inline constexpr MetricDescription push_duration_seconds{
  MetricSample::Kind::histogram, "troupe_push_duration_seconds",
  "Time from a worker's push until the last shard acknowledged it; "
  "asynchronous: until all have answered a pull sent after it."};
inline constexpr MetricDescription pull_duration_seconds{
  MetricSample::Kind::histogram, "troupe_pull_duration_seconds",
  "Time from a worker's pull until the last slice arrived."};
inline constexpr MetricDescription pushed_bytes_total{
  MetricSample::Kind::counter, "troupe_pushed_bytes_total",
  "Gradient bytes that workers pushed."};
inline constexpr MetricDescription pulled_bytes_total{
  MetricSample::Kind::counter, "troupe_pulled_bytes_total",
  "Parameter bytes that workers pulled."};
inline constexpr MetricDescription executor_queue_tasks{
  MetricSample::Kind::gauge, "troupe_executor_queue_tasks",
  "Tasks that wait for a device's executor."};

// -- replicas ----------------------------------------------------------------

inline constexpr MetricDescription all_reduce_wait_seconds{
  MetricSample::Kind::histogram, "troupe_all_reduce_wait_seconds",
  "Time from a replica's whole gradient until the step's sums are there."};
inline constexpr MetricDescription all_reduce_bytes_total{
  MetricSample::Kind::counter, "troupe_all_reduce_bytes_total",
  "Gradients sent over streams, by label form: sent, plain (uncompressed)."};
inline constexpr MetricDescription link_carrier{
  MetricSample::Kind::gauge, "troupe_link_carrier",
  "1 for each peer that a role is linked to, by labels peer and carrier: "
  "memory, shm, tcp or tcp+tls."};

// -- shards ------------------------------------------------------------------

inline constexpr double staleness_bounds[] = {0, 1,  2,  3,  4, 6,
                                              8, 12, 16, 32, 64};
inline constexpr MetricDescription push_staleness_steps{
  MetricSample::Kind::histogram, "troupe_push_staleness_steps",
  "Versions between the pull a gradient was computed on and its application.",
  staleness_bounds};
inline constexpr MetricDescription pushes_too_stale_total{
  MetricSample::Kind::counter, "troupe_pushes_too_stale_total",
  "Asynchronous pushes refused as too stale; their leases are recomputed."};
inline constexpr MetricDescription late_pushes_dropped_total{
  MetricSample::Kind::counter, "troupe_late_pushes_dropped_total",
  "Pushes of stragglers dropped: their step was made of others' gradients."};
inline constexpr MetricDescription pending_nodes{
  MetricSample::Kind::gauge, "troupe_pending_nodes",
  "Nodes of the reduction tree that a shard holds until their tree is whole."};
inline constexpr MetricDescription duplicates_dropped_total{
  MetricSample::Kind::counter, "troupe_duplicates_dropped_total",
  "Pushes recognised as already applied and dropped."};

inline constexpr MetricDescription shard_busy_seconds_total{
  MetricSample::Kind::counter, "troupe_shard_busy_seconds_total",
  "Time that a shard's executor summed, applied and copied."};
inline constexpr MetricDescription chain_slices{
  MetricSample::Kind::gauge, "troupe_chain_slices",
  "Slices by the shard's place in their chains, by label place."};
inline constexpr MetricDescription chain_forwarded_bytes_total{
  MetricSample::Kind::counter, "troupe_chain_forwarded_bytes_total",
  "Bytes of updates that a shard sent on to who follows it in a chain."};
inline constexpr MetricDescription chain_copied_bytes_total{
  MetricSample::Kind::counter, "troupe_chain_copied_bytes_total",
  "Bytes of slices that a shard copied to who lacked them."};

// -- links -------------------------------------------------------------------

inline constexpr MetricDescription link_sent_bytes_total{
  MetricSample::Kind::counter, "troupe_link_sent_bytes_total",
  "Bytes of messages sent on links to another process, lent ones included, by "
  "label peer."};
inline constexpr MetricDescription link_received_bytes_total{
  MetricSample::Kind::counter, "troupe_link_received_bytes_total",
  "Bytes of messages received on links from another process, lent ones "
  "included, by label peer."};
inline constexpr MetricDescription link_queued_bytes{
  MetricSample::Kind::gauge, "troupe_link_queued_bytes",
  "Bytes that wait for the peer's credit or for the socket, by label peer; of "
  "several links to it the most."};
inline constexpr MetricDescription link_messages_dropped_total{
  MetricSample::Kind::counter, "troupe_link_messages_dropped_total",
  "Messages from links whose receiver had ended."};

// -- supervision (coordinator) -----------------------------------------------

inline constexpr MetricDescription restarts_total{
  MetricSample::Kind::counter, "troupe_restarts_total",
  "Roles started again by their supervisor."};
inline constexpr MetricDescription membership_epoch{
  MetricSample::Kind::gauge, "troupe_membership_epoch",
  "Number of the current membership; rises when a role joins or is lost."};
inline constexpr MetricDescription epoch_pause_seconds{
  MetricSample::Kind::histogram, "troupe_epoch_pause_seconds",
  "How long an epoch change kept a worker from pushing and pulling, or a shard "
  "from serving all that is pulled from it."};
inline constexpr MetricDescription leaves_recomputed_total{
  MetricSample::Kind::counter, "troupe_leaves_recomputed_total",
  "Leaves of the reduction tree computed again after a loss."};
inline constexpr MetricDescription recoveries_total{
  MetricSample::Kind::counter, "troupe_recoveries_total",
  "Failures that the run survived, by label kind."};

// -- the exporter itself -----------------------------------------------------

inline constexpr MetricDescription metrics_conflicts_total{
  MetricSample::Kind::counter, "troupe_metrics_conflicts_total",
  "Series dropped because their name is taken by another kind of metric."};
inline constexpr MetricDescription metrics_dropped_total{
  MetricSample::Kind::counter, "troupe_metrics_dropped_total",
  "Series dropped, by label reason: malformed, duplicate or limit."};

} // namespace troupe::metrics
