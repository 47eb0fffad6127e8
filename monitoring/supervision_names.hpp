#pragma once

#include "monitoring/metrics.hpp"

/// Metrics of who supervises whom, who waits for whom and whose machine errs;
/// all_metrics.hpp lists them.
namespace troupe::metrics {

inline constexpr MetricDescription supervised{
  MetricSample::Kind::gauge, "troupe_supervised",
  "How often a role was started again, by labels member and supervisor."};
inline constexpr MetricDescription restarts_left{
  MetricSample::Kind::gauge, "troupe_restarts_left",
  "Restarts that may follow without a committed step before the run ends."};
inline constexpr MetricDescription restarts_allowed{
  MetricSample::Kind::gauge, "troupe_restarts_allowed",
  "Restarts that a committed step gives back."};
inline constexpr MetricDescription waits_for{
  MetricSample::Kind::gauge, "troupe_waits_for",
  "1 for each role that another waits for: labels waiter, awaited, what."};
inline constexpr MetricDescription step_age_seconds{
  MetricSample::Kind::gauge, "troupe_step_age_seconds",
  "Time since the last commit; label reason: of a step that is late."};
inline constexpr MetricDescription gradients_computed_twice_total{
  MetricSample::Kind::counter, "troupe_gradients_computed_twice_total",
  "Gradients with values that were not finite and, computed again, were."};

inline constexpr MetricDescription members{
  MetricSample::Kind::gauge, "troupe_members",
  "Members of the job by label state: expected, present, left_out."};
inline constexpr MetricDescription loss_seconds{
  MetricSample::Kind::gauge, "troupe_loss_seconds",
  "Silence after which a member counts as lost."};
inline constexpr MetricDescription left_out{
  MetricSample::Kind::gauge, "troupe_left_out",
  "1 for each member that is left out: labels member, reason."};

} // namespace troupe::metrics
