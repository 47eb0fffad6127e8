#pragma once

#include "monitoring/metrics.hpp"

/// What the system says of links over TCP between processes, and how long
/// stages wait for what comes on theirs; else as names.hpp.
namespace troupe::metrics {

inline constexpr MetricDescription link_delivered_bytes_total{
  MetricSample::Kind::counter, "troupe_link_delivered_bytes_total",
  "Bytes that the peer's system has acknowledged on TCP links, by label peer."};
inline constexpr MetricDescription link_busy_seconds_total{
  MetricSample::Kind::counter, "troupe_link_busy_seconds_total",
  "Time in which bytes were on their way on TCP links to a peer that had room "
  "for them, by label peer."};
inline constexpr MetricDescription link_stalled_seconds{
  MetricSample::Kind::gauge, "troupe_link_stalled_seconds",
  "How long nothing was acknowledged on a TCP link, though the system sent it "
  "again, by label peer; 0: it is."};

inline constexpr MetricDescription receive_wait_seconds{
  MetricSample::Kind::histogram, "troupe_receive_wait_seconds",
  "Time of a step in which a stage or tensor member waited for what others "
  "send; it is no part of the time that it computes."};

} // namespace troupe::metrics
